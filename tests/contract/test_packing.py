"""What `isvc pack` writes and what torch-model-archiver writes, of the same files: for every archive of the suites.

Servers read nothing of an archive but its files and its manifest, and these are compared here whole, but for the time
of packing. So both are served alike: the answers that the conformance suite records, of archives that the same code
packs, are those of torch-model-archiver's as well.
"""

from __future__ import annotations

import json
import tarfile
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from model_archive.manifest import MANIFEST
from model_archive.packing import ArchiveTarget, Sources, pack
from model_archive.writing import ArchiveFormat
from tests.conformance.archives import DIRECTORIES, HANDLERS, Archive, sources_of
from tests.support.build_cache import ROOT
from tests.support.model_folder import packed_zip, read_tree, write_files

with warnings.catch_warnings(action="ignore"):  # a file that is left open
    from model_archiver.model_archiver import generate_model_archive
    from model_archiver.model_archiver_config import ModelArchiverConfig

BERT, MNIST, RESNET, TORCHSERVE = (ROOT / "examples" / name for name in ("bert", "mnist", "resnet50", "torchserve"))


@dataclass(frozen=True)
class Model:
    """The options of one archive, once its files are in a folder."""

    title: str
    sources: Callable[[Path], Sources]


def _made(name: str) -> bytes:
    """A file of this name; weights are TorchScript and a state_dict as far as they are looked into."""
    is_weights = name.endswith((".pt", ".pth"))
    return packed_zip({f"{name}/{part}.pkl": b"" for part in ("constants", "data")}) if is_weights else name.encode()


def _of_example(title: str, folder: Path, handler: str, *extra: str, weights: str, model_file: str = "") -> Model:
    def sources(work: Path) -> Sources:
        names = [name for name in (handler, model_file, *extra) if (folder / name).is_file()]
        write_files(work, {name: (folder / name).read_bytes() for name in names})
        write_files(work, {name: _made(name) for name in (weights, *extra) if not (folder / name).is_file()})
        return Sources(
            model_name=title,
            handler=str(work / handler) if names and handler in names else handler,
            model_file=work / model_file if model_file else None,
            serialized_file=work / weights,
            extra_files=tuple(str(work / name) for name in extra),
        )

    return Model(title, sources)


def _of_suite(archive: Archive) -> Model:
    def sources(work: Path) -> Sources:
        files = {name: (HANDLERS / name).read_bytes() for name in archive.files} | dict(archive.contents)
        made = {name: _made(name) for name in (*archive.weights, archive.fields.get("requirementsFile", ""))}
        write_files(work, files | {name: content for name, content in made.items() if name})
        return sources_of(archive, work)

    return Model(archive.file, sources)


_IN_ARCHIVES = {name for several in DIRECTORIES.values() for archive in several for name in archive.files}
_ALONE = sorted({file.name for file in HANDLERS.glob("*.py")} - _IN_ARCHIVES - {"weights.py"})  # which other tests pack
MODELS = [
    _of_example("bert-model", BERT, "handler.py", "vocab.txt", "index_to_name.json", "wordpiece.py", weights="bert.pt",
                model_file="model.py"),
    _of_example("mnist", MNIST, "handler.py", weights="mnist.pt", model_file="model.py"),
    _of_example("embedding", RESNET, "embedding.py", "pictures.py", weights="embedding.pt"),
    _of_example("tags", RESNET, "tags.py", "pictures.py", "embedding.pt", "index_to_name.json",
                weights="classifier.pt"),
    _of_example("digits", TORCHSERVE, "mnist_handler.py", weights="mnist.pth", model_file="mnist.py"),
    _of_example("densenet161", TORCHSERVE, "image_classifier", "index_to_name.json", weights="densenet161.pth",
                model_file="densenet.py"),
    *map(_of_suite, {archive.file: archive for several in DIRECTORIES.values() for archive in several}.values()),
    *(_of_suite(Archive(Path(name).stem, name, files=(name,))) for name in _ALONE),
]  # fmt: skip


@pytest.fixture
def archiver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Sources, str], Path]:
    """Packs with torch-model-archiver, which assembles in the temporary directory."""
    (tmp_path / "archiver").mkdir()
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))

    def run(sources: Sources, form: str) -> Path:
        config: dict[str, Any] = {
            "model_name": sources.model_name,
            # It wants `handler:function`, though servers take `handler.py:function` as well.
            "handler": sources.handler.replace(".py:", ":"),
            "version": sources.version or "1.0",
            "extra_files": ",".join(sources.extra_files) or None,
            "export_path": str(tmp_path / "archiver"),
            "archive_format": form,
            **{
                name: str(path)
                for name in ("model_file", "serialized_file", "requirements_file", "config_file")
                if (path := getattr(sources, name))
            },
        }
        generate_model_archive(ModelArchiverConfig(**config))
        return tmp_path / "archiver" / f"{sources.model_name}{ArchiveFormat(form).ending}"

    return run


def contents(path: Path) -> dict[str, bytes]:
    """Every file of an archive, by its name there."""
    if path.is_dir():
        files = read_tree(path)
    elif path.suffix == ".mar":
        with ZipFile(path) as zipped:
            files = {name: zipped.read(name) for name in zipped.namelist()}
    else:
        with tarfile.open(path) as tarred:
            files = {member.name: tarred.extractfile(member).read() for member in tarred}  # type: ignore[union-attr]
    return files


def without_manifest(files: dict[str, bytes]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The manifest but for the time, and the other files."""
    (name,) = (name for name in files if name.endswith(MANIFEST))
    manifest = json.loads(files.pop(name))
    manifest.pop("createdOn")
    return manifest, files


@pytest.mark.parametrize("form", ["default", "zip-store", "tgz", "no-archive"])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.title)
def test_an_archive_holds_what_torch_model_archiver_packs(
    model: Model, form: str, archiver: Callable[[Sources, str], Path], tmp_path: Path
) -> None:
    sources = model.sources(tmp_path / "files")
    (tmp_path / "ours").mkdir()

    ours = pack(sources, ArchiveTarget(tmp_path / "ours", ArchiveFormat(form))).path
    theirs = archiver(sources, form)

    manifest, files = without_manifest(contents(ours))
    expected, expected_files = without_manifest(contents(theirs))
    manifest["model"].pop("envelope", None)  # a field that it has no option for
    manifest["model"]["handler"] = manifest["model"]["handler"].replace(".py:", ":")
    assert (ours.name, json.dumps(manifest), files) == (theirs.name, json.dumps(expected), expected_files)
    assert files
