"""The sample `examples/mnist`: one network in every form, built by the command its README gives."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest

from data_plane.protocol.v2.requests import TensorMetadata
from mar_runtime.engines import load_engine
from mar_runtime.engines.config import read_config
from tests.support.build_cache import sample

SAMPLE = Path(__file__).parents[3] / "examples/mnist"
BARE = ("scripted/model.pt", "traced/model.pt", "onnx/model.onnx")
DIGIT = 7


def build(outdir: Path) -> str:
    command = [sys.executable, str(SAMPLE / "build.py"), str(outdir)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def volumes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(sample("mnist"), tmp_path_factory.mktemp("mnist") / "volumes"))


def instances(name: str) -> list[Any]:
    return json.loads((SAMPLE / name).read_text())["instances"]  # type: ignore[no-any-return]


def images() -> np.ndarray:
    return np.array(instances("sample-tensor.json"), np.float32)


@pytest.fixture
def handler(volumes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The handler as a worker loads it: from the unpacked archive, with the manifest as context."""
    ZipFile(volumes / "mar/model-store/mnist.mar").extractall(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    from handler import DigitHandler

    context = SimpleNamespace(
        system_properties={"model_dir": str(tmp_path), "gpu_id": None},
        manifest=json.loads((tmp_path / "MAR-INF/MANIFEST.json").read_text()),
        model_yaml_config={},
        get_request_header=lambda *_: None,
        metrics=SimpleNamespace(add_time=lambda *_: None),
    )
    instance = DigitHandler()
    instance.initialize(context)
    yield lambda data: instance.handle(data, context)
    for module in ("handler", "model"):
        sys.modules.pop(module, None)


def test_both_sample_requests_hold_the_same_image() -> None:
    assert np.array(instances("sample.json")[0]["data"]).tolist() == images().ravel().tolist()


@pytest.mark.filterwarnings("ignore:unclosed file .*version.txt:ResourceWarning")  # ts leaves it open
def test_the_archive_sees_the_digit_and_names_an_instance_that_is_no_image(handler: Any) -> None:
    assert handler(instances("sample.json") * 2) == [DIGIT, DIGIT]
    for wrong in ({"data": [1, 2]}, {"data": "seven"}, None):
        with pytest.raises(ValueError, match=r'^instance 1 is not an image: expected {"data": \[784 numbers\]}$'):
            handler([*instances("sample.json"), wrong])


@pytest.mark.parametrize("model", BARE)
def test_every_bare_form_sees_the_digit(volumes: Path, model: str) -> None:
    engine = load_engine(volumes / model, "cpu", 1)

    assert engine.inputs == (TensorMetadata("image", "FP32", (-1, 1, 28, 28)),)
    assert engine.outputs == (TensorMetadata("log_probabilities", "FP32", (-1, 10)),)
    for batch in (1, 2, 1):
        scores = engine.run({"image": np.repeat(images(), batch, axis=0)})["log_probabilities"]
        assert scores.argmax(axis=1).tolist() == [DIGIT] * batch


def test_the_bare_forms_give_the_same_scores(volumes: Path) -> None:
    scores = [load_engine(volumes / model, "cpu", 1).run({"image": images()})["log_probabilities"] for model in BARE]

    for other in scores[1:]:
        np.testing.assert_allclose(other, scores[0], rtol=1e-5)


def test_the_largest_batch_is_the_same_for_all_but_onnx(volumes: Path) -> None:
    assert [read_config(volumes / model).batch_size for model in BARE] == [32, 32, None]


def test_a_second_build_finds_everything_up_to_date(volumes: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in volumes.rglob("*")}

    assert build(volumes) == f"{volumes} is up to date\n"
    assert {path: path.stat().st_mtime_ns for path in volumes.rglob("*")} == before
