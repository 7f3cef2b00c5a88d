"""The suite's model directories: one for each setting of `service_envelope`, TorchServe's only way to choose one, two
of handlers that compute with torch, one for settings that concern all models, and one for values of settings.

Their archives are packed as by `isvc pack`, so that what it writes is served in every way that this suite knows."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from model_archive import packing, writing
from model_archive.manifest import STOCK_HANDLERS
from model_archive.packing import ArchiveTarget, Sources, pack
from tests.conformance.cases import values
from tests.support import model_folder, wheels
from tests.support.build_cache import kept
from tests.support.model_folder import write_files
from tests.support.runtimes import OURS
from tests.support.wheels import make_wheel

HANDLERS = Path(__file__).parents[1] / "support/handlers"
_OPTIONS = {
    "model_file": "modelFile",
    "serialized_file": "serializedFile",
    "requirements_file": "requirementsFile",
    "config_file": "configFile",
}
MADE = datetime(2026, 10, 1, 12, tzinfo=UTC)  # as the manifest says that a handler returns
BATCH_SIZE = 4
LABELS = json.dumps({str(number): f"label {number}" for number in range(6)}).encode()
MODEL_CONFIG = b"""\
# As written for torch-model-archiver's --config-file.
probe:
  threshold: 0.25
  names: [one, two]
  enabled: yes
"""
# By what stands for them until an archive is packed: names of files that are UTF-8 without the flag that says so.
UNFLAGGED = {"w__rter.txt": "wörter.txt"}
PACKAGE = ("conformance_words", "installed from the requirements")


@dataclass(frozen=True)
class Archive:
    """What goes into one `.mar`: files of tests/support/handlers, weights by name, and fields of its manifest.

    One that is `later` is registered while the server runs.
    """

    model: str
    handler: str
    files: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    contents: Mapping[str, bytes] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
    version: str = "1.0"
    batch_size: int = 1
    later: bool = False

    @property
    def file(self) -> str:
        return f"{self.model}-{self.version}.mar"


def _alone(handler: str, model: str, **settings: Any) -> Archive:
    """A handler of one file."""
    return Archive(model, handler, files=(handler.partition(":")[0],), **settings)


def _network(model: str, handler: str, network: str, *weights: str, labels: bool = True) -> Archive:
    """A stock handler over a network of its own."""
    return Archive(
        model,
        handler,
        files=(f"{network}.py",),
        weights=(f"{network}.pt", *weights),
        contents={"index_to_name.json": LABELS} if labels else {},
        fields={"modelFile": f"{network}.py", "serializedFile": f"{network}.pt"},
    )


PROBE = Archive(
    "probe",
    "probe.py",
    files=("probe.py", "beside.py"),
    contents={"words.txt": b"an extra file", "model-config.yaml": MODEL_CONFIG},
    fields={"configFile": "model-config.yaml"},
)
BATCHED = Archive("batched", "probe.py", files=("probe.py", "beside.py"), batch_size=BATCH_SIZE)
SCRIPTED = Archive(
    "scripted",
    "stages.py",
    files=("stages.py",),
    weights=("network_script.pt",),
    contents={"index_to_name.json": LABELS},
    fields={"serializedFile": "network_script.pt"},
)
ONNX = Archive(
    "onnx", "session.py", files=("session.py",), weights=("network.onnx",), fields={"serializedFile": "network.onnx"}
)
CONFIGURED = _alone("configured.py", "configured")
# Nothing is said of its batches: it gets one row at a time.
FIRST = _alone("first_row.py", "first")
LISTED = Archive("listed", "listed.py", files=("listed.py",), contents={"w__rter.txt": b"as zip -r on Linux writes it"})
DIRECTORIES: Mapping[str, tuple[Archive, ...]] = {
    "": (
        PROBE,
        BATCHED,
        _alone("function.py", "function", batch_size=BATCH_SIZE),
        _alone("function.py", "function", version="2.0"),
        _alone("entry.py:answer", "entry"),
        _alone("installed.py", "installed", fields={"requirementsFile": "requirements.txt"}),
        CONFIGURED,
    ),
    "stock": (
        PROBE,
        ONNX,
        _network("image-classifier", "image_classifier", "image_network"),
        _network("object-detector", "object_detector", "box_network"),
        _network("image-segmenter", "image_segmenter", "pixel_network", labels=False),
        _network("text-classifier", "text_classifier", "text_network", "source_vocab.pt"),
    ),
    "kserve": (
        PROBE,
        _alone("sums.py", "sums"),
        _alone("function.py", "function", batch_size=BATCH_SIZE, fields={"envelope": "body"}),
    ),
    "stages": (SCRIPTED, _network("eager", "base_handler", "network", labels=False)),
    "kservev2": (PROBE, FIRST),
    "json": (PROBE,),
    "body": (PROBE,),
    "settings": (PROBE, FIRST, CONFIGURED, replace(CONFIGURED, version="2.0")),
    "store": (LISTED, replace(CONFIGURED, model="later", later=True)),
    "values": tuple(
        replace(CONFIGURED, model=model, contents={"c.yaml": yaml.encode()}, fields={"configFile": "c.yaml"})
        for model, yaml in values.YAML.items()
    ),
}
# The settings of a directory; without them, a snapshot says everything of each of its models.
SETTINGS: Mapping[str, tuple[str, ...]] = {
    "stock": ("load_models=all", "default_workers_per_model=1"),
    "stages": ("service_envelope=kserve", "load_models=all", "default_workers_per_model=1"),
    "kservev2": ("service_envelope=kservev2", "load_models=all", "default_workers_per_model=1"),
    "settings": (
        "load_models=gone=gone.mar,probe-1.0.mar,first-1.0.mar,configured=configured-1.0.mar,configured=configured-2.0.mar",
        "default_workers_per_model=1",
        "decode_input_request=false",
    ),
    "store": (
        "load_models=listed-1.0.mar",
        "default_workers_per_model=1",
        "enable_model_api=true",
        "enable_envvars_config=true",
    ),
    "values": ("load_models=all", "default_workers_per_model=1"),
}


def has_torch(directory: str) -> bool:
    """Whether the handlers of a directory compute with torch."""
    return directory in ("stock", "stages")


def served_by(directory: str) -> tuple[str, ...]:
    """Which of our runtimes are asked of a directory.

    What handlers do with torch is decided within a worker, where both runtimes have the same code. Behind the adapter,
    every model imports torch again.
    """
    return ("mar",) if has_torch(directory) else OURS


def directories() -> dict[str, Path]:
    """Every model directory, by its name."""
    modules = (packing, writing, model_folder, values, wheels)
    sources = (Path(__file__), *(Path(str(one.__file__)) for one in modules), *sorted(HANDLERS.glob("*.py")))
    folder = kept("conformance", _build, *sources)
    return {name: folder / _name(name) for name in DIRECTORIES}


def _build(folder: Path) -> None:
    weights, package = folder / "weights", folder / "package"
    for made in (weights, package):
        made.mkdir(parents=True)
    subprocess.run([sys.executable, "-W", "ignore", HANDLERS / "weights.py", weights], check=True)
    wheel = make_wheel(package, *PACKAGE)
    for name in DIRECTORIES:
        _directory(folder / _name(name), name, weights, wheel)


def _name(directory: str) -> str:
    return f"directory-{directory or 'plain'}"


def _directory(made: Path, name: str, weights: Path, wheel: Path) -> None:
    for archive in DIRECTORIES[name]:
        _write(made / "model-store" / archive.file, archive, weights, wheel)
    (made / "config").mkdir()
    (made / "config/config.properties").write_text(config(name))


def config(name: str) -> str:
    """config.properties that serves the archives of a directory, each with one worker."""
    lines = SETTINGS.get(name) or _with_snapshot(name)
    return "\n".join([*lines, ""])


def _with_snapshot(envelope: str) -> list[str]:
    models: dict[str, dict[str, Any]] = {}
    for archive in DIRECTORIES[envelope]:
        versions = models.setdefault(archive.model, {})
        versions[archive.version] = {
            "defaultVersion": not versions, "marName": archive.file, "minWorkers": 1, "maxWorkers": 1,
            "batchSize": archive.batch_size, "maxBatchDelay": 500, "responseTimeout": 60,
        }  # fmt: skip
    snapshot = {"name": "startup.cfg", "modelCount": len(DIRECTORIES[envelope]), "models": models}
    lines = ["install_py_dep_per_model=true", "model_metrics_auto_detect=true", "disable_system_metrics=true"]
    lines += [f"service_envelope={envelope}"] if envelope else []
    return [*lines, f"model_snapshot={json.dumps(snapshot)}"]


def _write(path: Path, archive: Archive, weights: Path, wheel: Path) -> None:
    files = {name: (HANDLERS / name).read_bytes() for name in archive.files}
    files |= {name: (weights / name).read_bytes() for name in archive.weights}
    files |= archive.contents
    if requirements := archive.fields.get("requirementsFile"):
        files[requirements] = f"conformance-words @ {wheel.as_uri()}\n".encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as work:
        write_files(Path(work), files)
        content = pack(sources_of(archive, Path(work)), ArchiveTarget(Path(work), time=MADE)).path.read_bytes()
    for placeholder, name in UNFLAGGED.items():
        content = content.replace(placeholder.encode(), name.encode())
    path.write_bytes(content)


def sources_of(archive: Archive, folder: Path) -> Sources:
    """What `isvc pack` is given, for the archive's files in a folder."""
    fields = dict(archive.fields)
    named = {option: folder / fields.pop(name) for option, name in _OPTIONS.items() if name in fields}
    extra = [folder / name for name in (*archive.files, *archive.weights, *archive.contents)]
    return Sources(
        model_name=archive.model,
        version=archive.version,
        handler=archive.handler if archive.handler in STOCK_HANDLERS else str(folder / archive.handler),
        extra_files=tuple(map(str, extra)),
        other_fields=fields,
        **named,
    )
