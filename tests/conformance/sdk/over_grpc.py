"""What a server of either SDK is asked over gRPC, and its answers."""

from __future__ import annotations

from typing import Any

import grpc
import numpy as np

from data_plane.protocol.v2 import open_inference_pb2 as pb
from tests.conformance.sdk.values import plain

_SERVICE = "/inference.GRPCInferenceService/"
_INT = {"name": "x", "datatype": "INT64", "shape": [2], "contents": {"int64_contents": [1, 2]}}
_RAW = {"name": "x", "datatype": "INT64", "shape": [2]}
_BYTES = np.array([1, 2], np.int64).tobytes()


def _infer(model: str, *inputs: Any, **more: Any) -> tuple[str, dict[str, Any]]:
    return "ModelInfer", {"model_name": model, "id": "7", "inputs": list(inputs), **more}


def _text(model: str, text: str) -> tuple[str, dict[str, Any]]:
    contents = {"bytes_contents": [text.encode()]}
    return _infer(model, {"name": "x", "datatype": "BYTES", "shape": [1], "contents": contents})


REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "whether the server lives": ("ServerLive", {}),
    "whether the server is ready, with a model that is not": ("ServerReady", {}),
    "the server": ("ServerMetadata", {}),
    "whether a model is ready": ("ModelReady", {"name": "echo"}),
    "whether a model is ready that is not": ("ModelReady", {"name": "sick"}),
    "whether a missing model is ready": ("ModelReady", {"name": "nobody"}),
    "a model": ("ModelMetadata", {"name": "typed"}),
    "a missing model": ("ModelMetadata", {"name": "nobody"}),
    "outputs of numbers": _infer("echo", _INT),
    "outputs of raw inputs": _infer("echo", _RAW, raw_input_contents=[_BYTES]),
    "outputs of text": _text("echo", "a"),
    "outputs of async hooks": _infer("async", _INT),
    "outputs of FP16": _infer("echo", {**_RAW, "datatype": "FP16"}, raw_input_contents=[b"\0\x38\0\x40"]),
    "fewer raw inputs than inputs": _infer("echo", _RAW, {**_RAW, "name": "z"}, raw_input_contents=[_BYTES]),
    "raw inputs beside contents": _infer("echo", _INT, raw_input_contents=[_BYTES]),
    "data of another size than its shape": _infer("echo", {**_INT, "shape": [3]}),
    "an unknown datatype": _infer("echo", {**_INT, "datatype": "INT7"}),
    "inference with a missing model": _infer("nobody", _INT),
    "inference with a model that is not ready": _infer("sick", _INT),
    "an InferenceModel that is not a Model": _infer("bare", _INT),
    "a hook that returns a dict": _text("tensors", "a dict"),
    "a hook that returns None": _text("tensors", "None"),
    "a hook that returns dates": _text("tensors", "dates"),
    **{f"a hook that raises {name}": _text("raising-tensors", name) for name in (
        "InvalidInput", "InferenceError", "ModelNotFound", "ModelNotReady", "ServerNotReady", "UnsupportedProtocol",
        "NotImplementedError", "ValueError")},
    "loading a model": ("RepositoryModelLoad", {"model_name": "grpc-true"}),
    "loading a model that cannot be": ("RepositoryModelLoad", {"model_name": "grpc-raises-none"}),
    "unloading a model": ("RepositoryModelUnload", {"model_name": "grpc-true"}),
    "unloading a missing model": ("RepositoryModelUnload", {"model_name": "nobody"}),
}  # fmt: skip


def answers(port: int) -> dict[str, Any]:
    """Those of the server on this port: a message, or the name of a status code."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        return {f"over gRPC: {name}": _ask(channel, *asked) for name, asked in REQUESTS.items()}


def _ask(channel: grpc.Channel, method: str, fields: dict[str, Any]) -> Any:
    request = getattr(pb, f"{method}Request")(**fields)
    call = channel.unary_unary(_SERVICE + method)
    try:
        return plain(getattr(pb, f"{method}Response").FromString(call(request.SerializeToString(), timeout=60)))
    except grpc.RpcError as error:
        return error.code().name
