"""A sample request: zeros of the shapes and types that a model names, and nothing of what it does not say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from isvc.inference.sample import TooLarge, sample_of, tensors_of
from isvc.limits import SAMPLE_DIMENSIONS, SAMPLE_VALUES


def tensor(datatype: str = "FP32", shape: Any = (-1, 2), name: Any = "x") -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": list(shape) if isinstance(shape, tuple) else shape}


@pytest.mark.parametrize(
    ("datatype", "value"), [("FP32", 0.0), ("FP64", 0.0), ("INT64", 0), ("UINT8", 0), ("BOOL", False), ("BYTES", "")]
)
def test_each_value_is_that_of_its_type(datatype: str, value: object) -> None:
    made = json.loads(sample_of({"inputs": [tensor(datatype), tensor("INT32", (3,), "y")]}) or b"")

    assert made == {
        "inputs": [
            {"name": "x", "datatype": datatype, "shape": [1, 2], "data": [value, value]},
            {"name": "y", "datatype": "INT32", "shape": [3], "data": [0, 0, 0]},
        ]
    }


def test_a_torchscript_file_of_which_only_names_are_known_gives_no_sample() -> None:
    inputs = [{"name": "rows", "datatype": "FP32", "shape": [-1]}, {"name": "scale", "datatype": "FP64", "shape": []}]

    assert sample_of({"platform": "pytorch_torchscript", "inputs": inputs}) is None
    assert sample_of({"platform": "pytorch_torchscript", "inputs": inputs[1:]}) is not None
    assert sample_of({"platform": "onnx", "inputs": inputs}) is not None


@pytest.mark.parametrize(
    "metadata",
    [
        None, [], {}, {"inputs": None}, {"inputs": []}, {"inputs": [1]}, {"inputs": [tensor("COMPLEX")]},
        {"inputs": [tensor(shape="2")]}, {"inputs": [tensor(shape=[True])]}, {"inputs": [tensor(name=1)]},
        {"inputs": [tensor([])]}, {"inputs": [tensor(), tensor(shape=None)]},
    ],
    ids=repr,
)  # fmt: skip
def test_what_does_not_say_the_inputs_gives_no_sample(metadata: object) -> None:
    assert sample_of(metadata) is None


@pytest.mark.parametrize("inputs", [[tensor(shape=(SAMPLE_VALUES + 1,))], [tensor(shape=(SAMPLE_VALUES,))] * 2])
def test_a_sample_is_of_bounded_size(inputs: list[Any]) -> None:
    assert sample_of({"inputs": inputs}) is None


@pytest.mark.parametrize(
    "inputs", [[tensor(shape=(3, 224, 224))], [tensor(shape=())] * 1001, [tensor(shape=(10**4000,))]]
)
def test_it_is_told_that_a_sample_would_be_too_large(inputs: list[Any]) -> None:
    with pytest.raises(TooLarge):
        tensors_of({"inputs": inputs}, 1000)


def test_an_input_with_too_many_dimensions_gives_no_sample() -> None:
    assert sample_of({"inputs": [tensor(shape=(1,) * SAMPLE_DIMENSIONS)]}) is not None
    assert sample_of({"inputs": [tensor(shape=(1,) * (SAMPLE_DIMENSIONS + 1))]}) is None
