"""model-config.yaml as its owner writes it, right and wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from data_plane.protocol.v2.requests import TensorMetadata
from mar_runtime.engines.config import ModelConfig, read_config
from mar_runtime.engines.errors import CannotLoad


def read(folder: Path, text: str) -> ModelConfig:
    (folder / "model-config.yaml").write_text(text, encoding="utf-8")
    return read_config(folder / "model.pt")


def test_every_setting_is_read(tmp_path: Path) -> None:
    text = """
    inputs:
      - {name: image, datatype: FP32, shape: [-1, 1, 28, 28]}
    outputs:
      - {name: scores, datatype: FP32, shape: [-1, 10]}
    batchSize: 32
    maxBatchDelay: 5
    """

    assert read(tmp_path, text) == ModelConfig(
        inputs=(TensorMetadata("image", "FP32", (-1, 1, 28, 28)),),
        outputs=(TensorMetadata("scores", "FP32", (-1, 10)),),
        batch_size=32,
    )


def test_without_the_file_nothing_is_set(tmp_path: Path) -> None:
    assert read_config(tmp_path / "model.pt") == ModelConfig()


def test_an_empty_file_sets_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, "# later\n") == ModelConfig()


def test_the_shape_of_a_scalar_is_empty(tmp_path: Path) -> None:
    assert read(tmp_path, "inputs: [{name: rate, datatype: INT64, shape: []}]").inputs == (
        TensorMetadata("rate", "INT64", ()),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("batchsize: 32", "Object contains unknown field `batchsize`"),
        ("batchSize: many", "Expected `int | null`, got `str` - at `$.batchSize`"),
        ("batchSize: 0", "Expected `int` >= 1 - at `$.batchSize`"),
        ("maxBatchDelay: -1", "Expected `int` >= 0 - at `$.maxBatchDelay`"),
        ("inputs: [{name: x, datatype: FP32}]", "Object missing required field `shape` - at `$.inputs[0]`"),
        ("inputs: [{name: x, datatype: FP32, shape: [-2]}]", "Expected `int` >= -1 - at `$.inputs[0].shape[0]`"),
        ("[1, 2]", "Expected `object`, got `array`"),
    ],
)
def test_a_wrong_setting_is_named_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CannotLoad) as caught:
        read(tmp_path, text)

    assert str(caught.value) == f"{tmp_path / 'model-config.yaml'}: {message}"


def test_a_datatype_that_the_protocol_does_not_have_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        CannotLoad, match=r"there is no datatype 'float32'; use one of BOOL, .*BYTES - at `\$.inputs\[0\]`"
    ):
        read(tmp_path, "inputs: [{name: x, datatype: float32, shape: [-1]}]")


@pytest.mark.parametrize(
    ("text", "message"),
    [("since: 2026-13-45", "month must be in 1..12"), ("[" * 10_000, "maximum recursion depth exceeded")],
    ids=["no date", "deep"],
)
def test_what_yaml_cannot_hold_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CannotLoad, match=f"model-config.yaml: {message}"):
        read(tmp_path, text)


def test_text_that_is_no_yaml_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(CannotLoad, match="line 2, column 1"):
        read(tmp_path, "inputs: [\n")
