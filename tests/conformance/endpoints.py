"""Every endpoint of the v1 and v2 protocols, HTTP and gRPC, with what ours answer to it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.json_format import MessageToDict, ParseDict

from data_plane import __version__
from data_plane.protocol.v2 import open_inference_pb2 as pb
from data_plane.server.endpoints.v2 import EXTENSIONS
from tests.conformance.archives import DIRECTORIES
from tests.conformance.case import JSON
from tests.support.runtimes import Request

MODELS = [archive.model for archive in DIRECTORIES["kserve"]]
ROWS = [[1.0, 2.5], [3.0, 4.0]]
NUMBERS = [number for row in ROWS for number in row]
SUMS = [3.5, 7.0]
METADATA = {"name": "sums", "versions": ["1.0"], "platform": "pytorch_torchserve", "inputs": [], "outputs": []}
INDEX: list[dict[str, str]] = [{"name": name, "version": "1.0", "state": "READY", "reason": ""} for name in MODELS]
SERVER = {"name": "isvc-operator", "version": __version__, "extensions": list(EXTENSIONS)}
READY = {"name": "sums", "ready": True}
INPUT = {"name": "rows", "shape": [2, 2], "datatype": "FP32", "data": NUMBERS}
OUTPUT = {"name": "predictions", "shape": [2], "datatype": "FP64", "data": SUMS}
INFER = json.dumps({"id": "an-id", "inputs": [INPUT]}).encode()
INFERRED = {"model_name": "sums", "model_version": "1.0", "id": "an-id", "outputs": [OUTPUT]}


@dataclass(frozen=True)
class Endpoint:
    """`template` is the path as the table names it."""

    template: str
    request: Request
    document: Any
    status: int = 200


def _get(template: str, document: object) -> Endpoint:
    path = template.replace("<model>", "sums").replace("<version>", "1.0")
    return Endpoint(f"GET {template}", Request("GET", path), document)


def _post(template: str, body: bytes, document: object) -> Endpoint:
    path = template.replace("<model>", "sums").replace("<version>", "1.0")
    return Endpoint(f"POST {template}", Request("POST", path, body, (("content-type", JSON),)), document)


_ROWS = json.dumps({"instances": ROWS}).encode()
V1 = (
    _get("/v1/models", {"models": MODELS}),
    _get("/v1/models/<model>", READY),
    _post("/v1/models/<model>:predict", _ROWS, {"predictions": SUMS}),
    _post("/v1/models/<model>:explain", _ROWS, {"explanations": SUMS}),
)
V2 = (
    _get("/v2", SERVER),
    _get("/v2/health/live", {"live": True}),
    _get("/v2/health/ready", {"ready": True}),
    _get("/v2/models", {"models": MODELS}),
    _get("/v2/models/<model>", METADATA),
    _get("/v2/models/<model>/versions/<version>", METADATA),
    _get("/v2/models/<model>/ready", READY),
    _get("/v2/models/<model>/versions/<version>/ready", READY),
    _post("/v2/models/<model>/infer", INFER, INFERRED),
    _post("/v2/models/<model>/versions/<version>/infer", INFER, INFERRED),
    _post("/v2/repository/index", b"", INDEX),
)
TORCHSERVES = (
    _get("/ping", {"status": "Healthy"}),
    _post("/invocations?model_name=<model>", _ROWS, {"predictions": SUMS}),
    _post("/models/<model>/invoke", _ROWS, {"predictions": SUMS}),
)
ENDPOINTS = (*V1, *V2, *TORCHSERVES)


@dataclass(frozen=True)
class Method:
    """A method of gRPC's service; messages are the documents that they are in JSON."""

    name: str
    request: Mapping[str, Any]
    response: Mapping[str, Any]


def _without_empty(document: Mapping[str, Any]) -> dict[str, Any]:
    """As protobuf's JSON leaves out what is not set."""
    return {name: value for name, value in document.items() if value}


_CONTENTS = {"name": "rows", "shape": ["2", "2"], "datatype": "FP32", "contents": {"fp32Contents": NUMBERS}}
_INFERRED = {
    "modelName": "sums",
    "modelVersion": "1.0",
    "id": "an-id",
    "outputs": [{"name": "predictions", "datatype": "FP64", "shape": ["2"], "contents": {"fp64Contents": SUMS}}],
}
METHODS = (
    Method("ServerLive", {}, {"live": True}),
    Method("ServerReady", {}, {"ready": True}),
    Method("ServerMetadata", {}, SERVER),
    Method("ModelReady", {"name": "sums"}, {"ready": True}),
    Method("ModelMetadata", {"name": "sums"}, _without_empty(METADATA)),
    Method("ModelInfer", {"modelName": "sums", "id": "an-id", "inputs": [_CONTENTS]}, _INFERRED),
    Method("RepositoryIndex", {}, {"models": [_without_empty(entry) for entry in INDEX]}),
)


def call(port: int, method: Method) -> Any:
    """The answer as a document, or the name of the status where the call fails."""
    answer_type = getattr(pb, f"{method.name}Response")
    request = ParseDict(dict(method.request), getattr(pb, f"{method.name}Request")())
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub: Callable[..., Any] = channel.unary_unary(
            f"/inference.GRPCInferenceService/{method.name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer_type.FromString,
        )
        try:
            return MessageToDict(stub(request, timeout=30))
        except grpc.RpcError as error:
            return error.code().name
