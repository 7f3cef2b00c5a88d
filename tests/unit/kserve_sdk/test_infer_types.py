"""Wrong requests and responses of the v2 protocol. Right ones are compared with KServe's in tests/conformance/sdk."""

from __future__ import annotations

import numpy as np
import pytest

from transformer_sdk.kserve.errors import InferenceError, InvalidInput
from transformer_sdk.kserve.protocol import infer_type as ours


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (ours.InferInput("x", [3], "INT64", [1, 2]), "shape [3] has 3 elements, the data has 2"),
        (ours.InferInput("x", [1], "INT64", ["a"]), "element 0 is 'a'"),
        (ours.InferInput("x", [1], "INT7", [1]), 'there is no datatype "INT7"'),
        (ours.InferInput("x", [3], "BYTES", ["a"]), "shape [3] has 3 elements, the data has 1"),
    ],
    ids=["shape", "element", "datatype", "shape of text"],
)
def test_data_that_does_not_fit_is_refused_when_it_becomes_an_array(tensor: ours.InferInput, words: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        tensor.as_numpy()
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "not valid JSON"),
        (b'{"inputs": [{"name": "x"}]}', "missing required field"),
        (b'{"inputs": [{"name": "x", "datatype": "INT8", "shape": [1]}]}', 'has no "data"'),
        (
            b'{"inputs": [{"name": "x", "datatype": "INT8", "shape": [1], "parameters": {"binary_data_size": 9}}]}',
            "binary_data_size is 9",
        ),
    ],
)
def test_a_body_that_is_not_of_the_protocol_is_refused(body: bytes, words: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        ours.InferRequest.from_bytes(body, None, "m")
    assert words in str(raised.value)


def test_a_file_is_refused_without_a_path_that_only_servers_of_handlers_have() -> None:
    with pytest.raises(InvalidInput) as raised:
        ours.InferRequest.from_bytes(b"GIF89a", None, "m")
    assert str(raised.value) == (
        "The body is not valid JSON: unexpected character, expected a JSON value (line 1, column 1)."
    )


def test_an_array_that_does_not_fit_is_refused() -> None:
    one = ours.InferOutput("y", [2], "FP32")
    for array in (np.zeros(2, np.float64), np.zeros(3, np.float32), [1.0, 2.0]):
        with pytest.raises(InferenceError):
            one.set_data_from_numpy(array)  # type: ignore[arg-type]


def test_numbers_as_ids_and_versions_of_a_response_become_text() -> None:
    output = {"name": "y", "shape": [1], "datatype": "INT64", "data": [1]}

    found = ours.InferResponse.from_rest({"id": 7, "model_name": "m", "model_version": 2, "outputs": [output]})

    assert (found.id, found.model_version) == ("7", "2")


def test_parameters_of_any_type_hinder_no_array_and_nulls_are_not_sent_over_grpc() -> None:
    parameters = {"content_type": None, "labels": ["a"]}
    output = ours.InferOutput("y", [1], "INT64", [1], parameters)

    assert output.as_numpy().tolist() == [1]
    with pytest.raises(InvalidInput, match="The parameter 'labels' is a list, which gRPC does not carry"):
        output.tensor()
    del output.parameters["labels"]  # type: ignore[attr-defined]
    assert output.tensor().parameters == {}
