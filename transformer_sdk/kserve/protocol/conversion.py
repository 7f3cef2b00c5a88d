"""Convert tensors of hooks to and from the data plane's, and gRPC messages; needs the extra `grpc`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from data_plane.errors import InvalidRequest as BadRequest
from data_plane.protocol.v2 import grpc as wire
from data_plane.protocol.v2 import requests, tensors
from data_plane.protocol.v2.open_inference_pb2 import ModelInferRequest, ModelInferResponse
from transformer_sdk.kserve.errors import InvalidInput
from transformer_sdk.kserve.protocol.infer_tensor import NamedTensor

_T = TypeVar("_T", bound=NamedTensor)


def request_from_proto(message: ModelInferRequest) -> requests.TensorRequest:
    """Return the request of a message; raises InvalidInput."""
    try:
        return wire.request_from_proto(message)
    except BadRequest as error:
        raise InvalidInput(str(error)) from error


def response_of_message(message: object) -> requests.TensorResponse:
    """Return the response in a gRPC message or dict; raises TypeError, or UpstreamBroken for invalid tensors."""
    if isinstance(message, dict):
        try:
            message = ModelInferResponse(**{name: message[name] for name in ("id", "model_name", "outputs")})
        except (KeyError, ValueError) as error:
            raise TypeError(f"it is not a ModelInferResponse: {error}") from error
    if not isinstance(message, ModelInferResponse):
        raise TypeError("it is neither an InferResponse nor a ModelInferResponse")
    return wire.response_from_proto(message)


def tensors_to_hook(kind: type[_T], given: Iterable[tensors.Tensor], *, raw: bool) -> list[_T]:
    """Return the tensors as objects for hooks: with `raw` as raw bytes, else as lists of values."""
    return [_named(kind, one, raw=raw) for one in given]


def _named(kind: type[_T], tensor: tensors.Tensor, *, raw: bool) -> _T:
    own = dict(tensor.parameters) or None
    if raw:
        made = kind(tensor.name, tensor.shape, tensor.datatype, None, own)
        made.take_raw(tensors.to_buffer(tensor))
        return made
    return kind(tensor.name, tensor.shape, tensor.datatype, tensors.to_values(tensor), own)
