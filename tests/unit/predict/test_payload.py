"""What is sent for data and files: the protocol follows from the shape, and the bytes stay as they are."""

from __future__ import annotations

import json

import pytest

from isvc.inference.protocol import InferenceProtocol
from isvc.predict.errors import UnusableRequest
from isvc.predict.payload import File, PredictPayload, of_files, of_json

CAT = File("", "cat.jpg", b"\xff\xd8")
TENSOR = {"name": "data", "shape": [1], "datatype": "FP32", "data": [1]}


@pytest.mark.parametrize(
    ("value", "protocol"),
    [
        ({"instances": [1]}, InferenceProtocol.V1),
        ({"inputs": [1, 2]}, InferenceProtocol.V1),
        ({"inputs": {"a": 1}}, InferenceProtocol.V1),
        ({"inputs": [TENSOR]}, InferenceProtocol.V2),
    ],
    ids=["instances", "inputs of v1", "an object as inputs", "tensors"],
)
def test_the_shape_of_the_data_shows_the_protocol(value: object, protocol: InferenceProtocol) -> None:
    content = json.dumps(value, indent=1).encode()

    assert of_json(content, None) == PredictPayload(protocol, content)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_json_in_another_encoding_is_sent_in_utf_8(encoding: str) -> None:
    text = '["caf\u00e9"]'

    assert of_json(text.encode(encoding), None).body == b'{"instances": ' + text.encode() + b"}"


def test_a_protocol_that_is_named_is_taken() -> None:
    assert of_json(b'{"prompt": "x"}', InferenceProtocol.V1) == PredictPayload(InferenceProtocol.V1, b'{"prompt": "x"}')
    torchserve = InferenceProtocol.TORCHSERVE
    assert of_json(b'{"prompt": "x"}', torchserve) == PredictPayload(torchserve, b'{"prompt": "x"}')
    assert of_json(b"a text", torchserve) == PredictPayload(torchserve, b"a text", "text/plain")


@pytest.mark.parametrize(
    ("content", "words"),
    [(b'{"prompt": "x"}', 'neither "instances"'), (b"{", "not JSON"), (b"[" * 100_000, "not JSON"), (b"3", "neither")],
    ids=["another shape", "no JSON", "nested too deep", "a number"],
)
def test_data_of_no_protocol_is_refused(content: bytes, words: str) -> None:
    with pytest.raises(UnusableRequest, match=words):
        of_json(content, None)


@pytest.mark.parametrize(
    "content", [b"[]", b'{"inputs": []}', b'{"instances": []}', b'{"instances": [], "inputs": [1]}']
)
def test_no_instances_are_refused_unless_the_protocol_is_named(content: bytes) -> None:
    with pytest.raises(UnusableRequest, match=r"^the data has an empty list, of which nothing is predicted; write "):
        of_json(content, None)

    assert of_json(content, InferenceProtocol.V1).protocol is InferenceProtocol.V1


@pytest.mark.parametrize(
    ("file", "instance"),
    [(CAT, {"b64": "/9g="}), (File("image", "cat.jpg", b"\xff\xd8"), {"image": {"b64": "/9g="}})],
    ids=["without a name", "with a name"],
)
def test_files_are_base64_in_v1(file: File, instance: object) -> None:
    payload = of_files([file], InferenceProtocol.V1)

    assert (payload.protocol, json.loads(payload.body)) == (InferenceProtocol.V1, {"instances": [instance]})


def test_files_of_v2_and_several_without_names_are_refused() -> None:
    with pytest.raises(UnusableRequest, match="tensors"):
        of_files([CAT], InferenceProtocol.V2)
    with pytest.raises(UnusableRequest, match="NAME=FILE"):
        of_files([CAT, CAT], None)


def test_two_files_of_one_name_in_an_instance_are_refused() -> None:
    with pytest.raises(UnusableRequest, match=r"^image is given twice; give each file a name of its own$"):
        of_files([File("image", "a.jpg", b"a"), File("image", "b.jpg", b"b")], InferenceProtocol.V1)


def test_a_models_name_is_quoted_in_each_path() -> None:
    assert [protocol.path("a/b c") for protocol in InferenceProtocol] == [
        "/v1/models/a%2Fb%20c:predict",
        "/v2/models/a%2Fb%20c/infer",
        "/predictions/a%2Fb%20c",
    ]


@pytest.mark.parametrize(
    ("value", "declared", "protocol"),
    [
        ({"inputs": [{"name": "data"}]}, InferenceProtocol.V2, InferenceProtocol.V2),
        ({"inputs": [{"name": "data"}]}, InferenceProtocol.V1, InferenceProtocol.V1),
        ({"inputs": [TENSOR]}, InferenceProtocol.V1, InferenceProtocol.V2),
        ({"instances": [1]}, InferenceProtocol.V2, InferenceProtocol.V1),
        ([1], InferenceProtocol.V2, InferenceProtocol.V1),
    ],
    ids=["inputs for v2", "inputs for v1", "tensors", "instances", "a list"],
)
def test_what_the_service_declares_decides_where_both_protocols_have_the_shape(
    value: object, declared: InferenceProtocol, protocol: InferenceProtocol
) -> None:
    assert of_json(json.dumps(value).encode(), None, declared).protocol is protocol
