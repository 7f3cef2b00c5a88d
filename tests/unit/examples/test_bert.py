"""The sample as TorchServe would use it: its layout, its archive and its handler, in process."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zipfile import ZipFile

import javaproperties
import pytest
import yaml

from tests.support.build_cache import sample

SAMPLE = Path(__file__).parents[3] / "examples/bert"
ARCHIVED_MODULES = ("handler", "model", "wordpiece")
# What importing torch and TorchServe warns of: torch.cuda imports pynvml, ts leaves its version.txt open.
pytestmark = [
    pytest.mark.process,
    pytest.mark.filterwarnings("ignore:The pynvml package is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:unclosed file .*version.txt:ResourceWarning"),
]


def build(outdir: Path) -> str:
    command = [sys.executable, str(SAMPLE / "build.py"), str(outdir)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def volume(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(sample("bert"), tmp_path_factory.mktemp("bert") / "volume"))


@pytest.fixture(scope="module")
def unpacked(volume: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    model_dir = tmp_path_factory.mktemp("unpacked")
    ZipFile(volume / "model-store/bert-model.mar").extractall(model_dir)
    return model_dir


@pytest.fixture
def handler(unpacked: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The handler as TorchServe's worker loads it: from the unpacked archive, with the manifest as context."""
    monkeypatch.syspath_prepend(unpacked)
    from handler import BertHandler

    context = SimpleNamespace(
        system_properties={"model_dir": str(unpacked), "gpu_id": None},
        manifest=json.loads((unpacked / "MAR-INF/MANIFEST.json").read_text()),
        model_yaml_config={},
        get_request_header=lambda *_: None,
        metrics=SimpleNamespace(add_time=lambda *_: None),
    )
    instance = BertHandler()
    instance.initialize(context)
    yield lambda data: instance.handle(data, context)
    for module in ARCHIVED_MODULES:
        sys.modules.pop(module, None)


def test_the_volume_is_laid_out_as_the_claim(volume: Path) -> None:
    files = {str(path.relative_to(volume)) for path in volume.rglob("*") if path.is_file()}

    assert files == {".built-from", "config/config.properties", "model-store/bert-model.mar"}


def test_the_settings_are_those_of_a_torchserve_user(volume: Path) -> None:
    settings = javaproperties.loads((volume / "config/config.properties").read_text())
    snapshot = json.loads(settings.pop("model_snapshot"))

    assert settings == {
        "inference_address": "http://0.0.0.0:8085",
        "management_address": "http://0.0.0.0:8081",
        "number_of_netty_threads": "4",
        "job_queue_size": "10",
        "enable_envvars_config": "true",
        "install_py_dep_per_model": "true",
        "model_store": "model-store",
    }
    version = {
        "defaultVersion": True, "marName": "bert-model.mar", "minWorkers": 1, "maxWorkers": 5,
        "batchSize": 1, "maxBatchDelay": 5000, "responseTimeout": 120,
    }  # fmt: skip
    assert snapshot == {"name": "startup.cfg", "modelCount": 1, "models": {"bert": {"1.0": version}}}


def test_the_archive_holds_the_handler_and_its_tokenizer(unpacked: Path) -> None:
    manifest = json.loads((unpacked / "MAR-INF/MANIFEST.json").read_text())
    files = {str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if path.is_file()}

    assert manifest["model"] == {
        "modelName": "bert-model", "modelVersion": "1.0",
        "handler": "handler.py", "modelFile": "model.py", "serializedFile": "bert.pt",
    }  # fmt: skip
    assert files == {
        "MAR-INF/MANIFEST.json", "bert.pt", "handler.py", "index_to_name.json", "model.py", "vocab.txt", "wordpiece.py",
    }  # fmt: skip


def test_every_form_of_instance_gets_its_class_in_order(handler: Any) -> None:
    instances = [
        {"data": "Where do you ship?"},
        "The lamp was broken and wet.",
        {"body": b"Excellent quality, I love it!"},
        bytearray(b"Please send me two lamps."),
    ]

    assert handler(instances) == [0, 1, 2, 3]


def test_a_class_does_not_depend_on_the_other_instances(handler: Any) -> None:
    long = {"data": "Please " * 100}

    assert handler(["Hello World!", long])[0] == handler(["Hello World!"])[0] == 4


@pytest.mark.parametrize(
    ("instance", "shown"), [({"data": 5}, "{'data': 5}"), ({"text": "Hi"}, "{'text': 'Hi'}"), (None, "None")]
)
def test_an_instance_without_a_text_is_refused_by_its_number(handler: Any, instance: Any, shown: str) -> None:
    message = f'instance 1 holds no text: expected a string or {{"data": "some text"}}, got {shown}'

    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        handler(["Hello World!", instance])


def test_a_second_build_finds_everything_up_to_date(volume: Path) -> None:
    archive = volume / "model-store/bert-model.mar"
    before = archive.stat()

    assert build(volume) == f"{volume} is up to date\n"
    assert archive.stat() == before


def test_the_service_is_the_storys() -> None:
    """With its numbers as people write them, without quotes."""
    service = yaml.safe_load((SAMPLE / "inferenceservice.yaml").read_text())

    assert service["metadata"] == {"name": "torchserve"}
    assert service["spec"]["predictor"]["model"] == {
        "modelFormat": {"name": "pytorch"},
        "storageUri": "pvc://leeway",
        "protocolVersion": "v1",
        "resources": {"limits": {"cpu": 2, "memory": "2Gi"}, "requests": {"cpu": 0.5, "memory": "0.5Gi"}},
    }
