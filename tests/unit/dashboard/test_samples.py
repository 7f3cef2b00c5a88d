"""The body of a sample request."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from isvc_operator.dashboard.samples import Protocol, sample, target, with_file

IMAGE = {"name": "image", "datatype": "FP32", "shape": [-1, 1, 2, 2]}
TEXT = {"name": "text", "datatype": "BYTES", "shape": [-1]}


@pytest.mark.parametrize(
    ("protocol", "inputs", "body"),
    [
        (Protocol.V1, [], {"instances": [{"data": "Hello World!"}]}),
        (Protocol.V1, [IMAGE], {"instances": [[[[0.0, 0.0], [0.0, 0.0]]]]}),
        (Protocol.V1, [IMAGE, TEXT], {"instances": [{"image": [[[0.0, 0.0], [0.0, 0.0]]], "text": "text"}]}),
        (
            Protocol.V2,
            [],
            {"inputs": [{"name": "data", "datatype": "BYTES", "shape": [1], "data": ["Hello World!"]}]},
        ),
        (
            Protocol.V2,
            [IMAGE, TEXT],
            {
                "inputs": [
                    {"name": "image", "datatype": "FP32", "shape": [1, 1, 2, 2], "data": [0.0, 0.0, 0.0, 0.0]},
                    {"name": "text", "datatype": "BYTES", "shape": [1], "data": ["text"]},
                ]
            },
        ),
    ],
)
def test_a_sample_fits_the_models_inputs(protocol: Protocol, inputs: list[Any], body: Any) -> None:
    assert json.loads(sample(protocol, {"inputs": inputs})) == body


@pytest.mark.parametrize("inputs", [None, "x", [1], [{"name": "a"}], {"a": 1}])
def test_metadata_of_another_form_declare_no_inputs(inputs: Any) -> None:
    assert sample(Protocol.V1, {"inputs": inputs}) == sample(Protocol.V1, {})


@pytest.mark.parametrize("protocol", Protocol)
def test_a_sample_of_a_large_input_has_a_bounded_number_of_values(protocol: Protocol) -> None:
    large = {"name": "image", "datatype": "FP32", "shape": [-1, 3, 224, 224]}

    assert sample(protocol, {"inputs": [large]}).count("0.0") == 1000


def test_a_file_is_an_instance_in_base64() -> None:
    assert json.loads(with_file(Protocol.V1, {}, b"\x89PNG")) == {
        "instances": [{"data": base64.b64encode(b"\x89PNG").decode()}]
    }


def test_a_file_is_the_models_input_of_bytes() -> None:
    tensor = {"name": "text", "datatype": "BYTES", "shape": [1], "data": [base64.b64encode(b"x").decode()]}

    assert json.loads(with_file(Protocol.V2, {"inputs": [IMAGE, TEXT]}, b"x")) == {"inputs": [tensor]}


def test_each_protocol_has_its_path() -> None:
    assert [target(protocol, "bert") for protocol in Protocol] == [
        "/v1/models/bert:predict",
        "/v2/models/bert/infer",
    ]
