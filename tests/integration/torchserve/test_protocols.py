"""Every protocol over one TorchServe with several models and versions, and archives that get in nobody's way."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest

from data_plane.protocol.v2 import grpc as proto
from data_plane.protocol.v2 import open_inference_pb2 as pb
from data_plane.protocol.v2.requests import TensorRequest
from data_plane.protocol.v2.tensors import Tensor
from tests.integration.torchserve.running import Adapter, model_dir
from tests.support.model_folder import manifest, write_mar
from tests.support.v2_rest import decode_response, encode_request

# What a handler of instances may be sent: dictionaries of named tensors, bare numbers, or a request as it came.
HANDLER = b"""
import utils

VERSION = %r

def handle(data, context):
    if data is None:
        return None
    return [answer(one) for one in data]

def answer(one):
    if isinstance(one, dict) and "body" in one:
        return {"bytes": len(one["body"]), "type": type(one["body"]).__name__, "version": VERSION}
    if isinstance(one, dict) and "file" in one:
        return {"bytes": len(one["file"]), "k": one["k"].decode()}
    return {"doubled": utils.doubled(one["x"])} if isinstance(one, dict) else utils.doubled(one)
"""
# An archive comes ahead of nearly everything on a worker's path.
BESIDE = {
    "utils.py": b"def doubled(value):\n    return [2 * x for x in value] if isinstance(value, list) else 2 * value\n",
    "msgspec.py": b"raise ImportError('the archive has its own')\n",
    "data_plane.py": b"raise ImportError('the archive has its own')\n",
}
LARGE = 12 * 1024 * 1024


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Adapter]:
    versions = {version: {"marName": f"two-{version}.mar"} for version in ("1.0", "2.0")}
    snapshot = {"models": {"two words": versions, "one": {"1.0": {"marName": "two-1.0.mar"}}}}
    config = f"model_snapshot={json.dumps(snapshot)}\nmax_request_size={LARGE + 1000}\n"
    folder = model_dir(tmp_path_factory.mktemp("protocols") / "models", config)
    for version in versions:
        write_mar(
            folder / "model-store" / f"two-{version}.mar",
            manifest(modelVersion=version),
            {"handler.py": HANDLER % version, **BESIDE},
        )
    with Adapter(folder) as running:
        yield running.wait_ready()


def post(adapter: Adapter, path: str, body: bytes, **headers: str) -> tuple[int, Any, dict[str, str]]:
    """(status, body, headers), with headers named as Python names things."""
    connection = http.client.HTTPConnection("127.0.0.1", adapter.port, timeout=60)
    connection.request("POST", path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, content, {name.lower(): value for name, value in answer.getheaders()}


def test_v1_reaches_a_model_with_a_space_in_its_name(adapter: Adapter) -> None:
    assert adapter.predict("two%20words", {"instances": [1, [2, 3]]}).document == {"predictions": [2, [4, 6]]}


def test_v2_json_is_answered_with_tensors(adapter: Adapter) -> None:
    body = {"id": "mine", "inputs": [{"name": "x", "datatype": "INT64", "shape": [2, 2], "data": [1, 2, 3, 4]}]}

    answer = adapter.request("POST", "/v2/models/one/infer", json.dumps(body).encode())

    assert (answer.status, answer.document) == (
        200,
        {
            "id": "mine",
            "model_name": "one",
            "model_version": "1.0",
            "outputs": [{"name": "predictions", "datatype": "INT64", "shape": [2, 2], "data": [2, 4, 6, 8]}],
        },
    )


def test_v2_binary_tensors_are_answered_as_binary_tensors(adapter: Adapter) -> None:
    tensor = Tensor.from_numpy("x", np.array([[0.5], [1.5]], dtype=np.float32))
    body, json_length = encode_request(TensorRequest((tensor,), parameters={"binary_data_output": True}), binary=True)

    status, content, headers = post(
        adapter, "/v2/models/one/versions/1.0/infer", body, Inference_Header_Content_Length=str(json_length)
    )

    answer = decode_response(content, int(headers["inference-header-content-length"]))
    assert status == 200
    assert [(one.name, one.datatype, one.data.tolist()) for one in answer.outputs] == [
        ("predictions", "FP64", [[1.0], [3.0]])
    ]


def test_grpc_is_answered_on_a_port_of_its_own(adapter: Adapter) -> None:
    inputs = (Tensor.from_numpy("x", np.array([1, 2])), Tensor.from_numpy("y", np.array([3, 4])))
    with grpc.insecure_channel(f"127.0.0.1:{adapter.grpc_port}") as channel:
        infer: Any = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelInfer",
            request_serializer=pb.ModelInferRequest.SerializeToString,
            response_deserializer=pb.ModelInferResponse.FromString,
        )
        answer = proto.response_from_proto(
            infer(proto.request_to_proto(TensorRequest(inputs), "two words"), timeout=60)
        )

    assert (answer.model_name, answer.model_version) == ("two words", "2.0")
    assert [(one.name, one.data.tolist()) for one in answer.outputs] == [("doubled", [2, 4])]


def test_a_raw_body_reaches_the_version_that_is_named_whatever_its_size(adapter: Adapter) -> None:
    answers = [
        json.loads(post(adapter, f"/predictions/two%20words{version}", b"\x00" * LARGE, Content_Type="image/jpeg")[1])
        for version in ("", "/1.0", "/2.0")
    ]

    assert answers == [{"bytes": LARGE, "type": "bytearray", "version": version} for version in ("2.0", "1.0", "2.0")]


def test_an_upload_reaches_the_handler_in_parts(adapter: Adapter) -> None:
    body = (
        b'--b\r\nContent-Disposition: form-data; name="k"\r\n\r\n5\r\n'
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.jpg"\r\nContent-Type: image/jpeg\r\n\r\n'
        b"\xff\xd8\xff\r\n--b--\r\n"
    )

    status, content, _ = post(adapter, "/predictions/one", body, Content_Type="multipart/form-data; boundary=b")

    assert (status, json.loads(content)) == (200, {"bytes": 3, "k": "5"})


def test_every_version_is_in_the_index(adapter: Adapter) -> None:
    index = adapter.request("POST", "/v2/repository/index").document

    assert sorted((entry["name"], entry["version"], entry["state"]) for entry in index) == [
        ("one", "1.0", "READY"),
        ("two words", "1.0", "READY"),
        ("two words", "2.0", "READY"),
    ]
    assert adapter.request("POST", "/v2/repository/models/one/unload").status == 501


def test_an_unknown_version_is_told_those_that_there_are(adapter: Adapter) -> None:
    answer = adapter.request("POST", "/predictions/two%20words/3.0", b"x")

    assert answer.status == 404
    assert "two words 1.0, two words 2.0" in answer.document["error"]


def test_the_stages_of_a_request_are_timed_on_request(adapter: Adapter) -> None:
    answer = adapter.request("POST", "/v1/models/one:predict", b'{"instances": [1]}', X_Server_Timing="1")

    stages = [stage.partition(";")[0] for stage in answer.headers["server-timing"].split(", ")]
    assert stages == ["queue", "batch", "model", "transport"]
