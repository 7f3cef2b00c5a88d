"""The body of a sample request."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from isvc.dashboard.samples import sample, with_file
from isvc.inference.protocol import InferenceProtocol

IMAGE = {"name": "image", "datatype": "FP32", "shape": [-1, 1, 2, 2]}
TEXT = {"name": "text", "datatype": "BYTES", "shape": [-1]}


@pytest.mark.parametrize(
    ("protocol", "inputs", "body"),
    [
        (InferenceProtocol.V1, [], {"instances": [{"data": "Hello World!"}]}),
        (InferenceProtocol.V1, [IMAGE], {"instances": [[[[0.0, 0.0], [0.0, 0.0]]]]}),
        (InferenceProtocol.V1, [IMAGE, TEXT], {"instances": [{"image": [[[0.0, 0.0], [0.0, 0.0]]], "text": ""}]}),
        (
            InferenceProtocol.V2,
            [],
            {"inputs": [{"name": "data", "datatype": "BYTES", "shape": [1], "data": ["Hello World!"]}]},
        ),
        (
            InferenceProtocol.V2,
            [IMAGE, TEXT],
            {
                "inputs": [
                    {"name": "image", "datatype": "FP32", "shape": [1, 1, 2, 2], "data": [0.0, 0.0, 0.0, 0.0]},
                    {"name": "text", "datatype": "BYTES", "shape": [1], "data": [""]},
                ]
            },
        ),
    ],
)
def test_a_sample_fits_the_models_inputs(protocol: InferenceProtocol, inputs: list[Any], body: Any) -> None:
    assert json.loads(sample(protocol, {"inputs": inputs}).body) == body


@pytest.mark.parametrize(
    "inputs", [None, "x", [1], [{"name": "a"}], {"a": 1}, [IMAGE, {"name": "b"}], [{**IMAGE, "shape": [1] * 1000}]]
)
def test_metadata_of_another_form_declare_no_inputs(inputs: Any) -> None:
    assert sample(InferenceProtocol.V1, {"inputs": inputs}) == sample(InferenceProtocol.V1, {})


LARGE = {"name": "image", "datatype": "FP32", "shape": [-1, 3, 224, 224]}


@pytest.mark.parametrize("protocol", [InferenceProtocol.V1, InferenceProtocol.V2])
@pytest.mark.parametrize("inputs", [[LARGE], [{**IMAGE, "name": str(number)} for number in range(251)]])
def test_of_too_many_values_there_is_no_sample_but_a_word_about_it(
    protocol: InferenceProtocol, inputs: list[Any]
) -> None:
    made = sample(protocol, {"inputs": inputs})

    assert made.body == ""
    assert "more than 1,000 values" in made.note
    assert "Choose a file" in made.note


def test_a_file_is_an_instance_in_base64() -> None:
    assert json.loads(with_file(InferenceProtocol.V1, {}, b"\x89PNG")) == {
        "instances": [{"data": base64.b64encode(b"\x89PNG").decode()}]
    }


def test_a_file_is_the_models_input_of_bytes() -> None:
    tensor = {"name": "text", "datatype": "BYTES", "shape": [1], "data": [base64.b64encode(b"x").decode()]}

    assert json.loads(with_file(InferenceProtocol.V2, {"inputs": [IMAGE, TEXT]}, b"x")) == {"inputs": [tensor]}
