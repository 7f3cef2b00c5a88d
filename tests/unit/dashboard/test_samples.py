"""The body of a sample request."""

from __future__ import annotations

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
    made = sample(protocol, {"inputs": inputs})

    assert json.loads(made.body) == body
    assert ("does not say what it takes" in made.note) is (not inputs)


@pytest.mark.parametrize(
    ("protocol", "body"),
    [
        (InferenceProtocol.V1, {"instances": []}),
        (InferenceProtocol.V2, {"inputs": [{"name": "x", "datatype": "FP32", "shape": [], "data": []}]}),
    ],
)
def test_of_inputs_that_are_names_alone_a_value_is_asked(protocol: InferenceProtocol, body: Any) -> None:
    scripted = {"platform": "pytorch_torchscript", "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1]}]}

    made = sample(protocol, scripted)

    assert (json.loads(made.body), made.note) == (
        body,
        "The model does not say what its inputs hold. Write your own input into the brackets, or choose a file.",
    )


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
    assert json.loads(with_file(InferenceProtocol.V1, {}, "iVBO")) == {"instances": [{"data": "iVBO"}]}


def test_a_file_is_the_models_input_of_bytes() -> None:
    tensor = {"name": "text", "datatype": "BYTES", "shape": [1], "data": ["iVBO"]}

    assert json.loads(with_file(InferenceProtocol.V2, {"inputs": [IMAGE, TEXT]}, "iVBO")) == {"inputs": [tensor]}
