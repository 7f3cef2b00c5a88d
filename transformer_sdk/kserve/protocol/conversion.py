"""Requests and responses of hooks to and from those of the rest of this SDK, and the messages of gRPC."""

from __future__ import annotations

from typing import TypeVar

from data_plane.errors import InvalidInput as BadRequest
from data_plane.protocol.v2 import grpc as wire
from data_plane.protocol.v2 import requests, tensors
from data_plane.protocol.v2.open_inference_pb2 import ModelInferRequest, ModelInferResponse
from transformer_sdk.kserve.errors import InvalidInput
from transformer_sdk.kserve.protocol import parameters
from transformer_sdk.kserve.protocol.infer_tensor import InferInput, InferOutput, NamedTensor
from transformer_sdk.kserve.protocol.infer_type import InferRequest, InferResponse, RequestedOutput

_T = TypeVar("_T", bound=NamedTensor)


def request_to_hook(asked: requests.InferRequest, model: str, *, raw: bool = False) -> InferRequest:
    """As a hook takes it; with `raw` its inputs came as raw bytes."""
    outputs = [RequestedOutput(one.name, dict(one.parameters)) for one in asked.outputs]
    made = InferRequest(
        model, [_named(InferInput, one, raw=raw) for one in asked.inputs], asked.id, from_grpc=True,
        parameters=dict(asked.parameters), request_outputs=outputs or None,
    )  # fmt: skip
    made.raw_inputs = raw
    return made


def request_of_hook(request: InferRequest) -> requests.InferRequest:
    """Raises InvalidInput where data, datatype and shape of an input do not agree."""
    try:
        return requests.InferRequest(
            tuple(one.tensor() for one in request.inputs),
            request.id,
            parameters.for_grpc(request.parameters),
            tuple(
                requests.RequestedOutput(one.name, parameters.for_grpc(one.parameters))
                for one in request.request_outputs or ()
            ),
        )
    except BadRequest as error:
        raise InvalidInput(str(error)) from error


def response_of_hook(response: InferResponse) -> requests.InferResponse:
    """Raises InvalidInput where data, datatype and shape of an output do not agree."""
    outputs = tuple(one.tensor() for one in response.outputs)
    own = parameters.for_grpc(response.parameters)
    return requests.InferResponse(response.model_name, response.model_version, outputs, response.id, own)


def response_of_message(message: object) -> requests.InferResponse:
    """Of gRPC's message, or of a dict of its fields; raises TypeError, and UpstreamBroken for its tensors."""
    if isinstance(message, dict):
        try:
            message = ModelInferResponse(**{name: message[name] for name in ("id", "model_name", "outputs")})
        except (KeyError, ValueError) as error:
            raise TypeError(f"it is no ModelInferResponse: {error}") from error
    if not isinstance(message, ModelInferResponse):
        raise TypeError("it is no InferResponse and no ModelInferResponse")
    return wire.response_from_proto(message)


def request_from_proto(message: ModelInferRequest) -> InferRequest:
    try:
        asked = wire.request_from_proto(message)
    except BadRequest as error:
        raise InvalidInput(str(error)) from error
    made = request_to_hook(asked, message.model_name, raw=bool(message.raw_input_contents))
    made.model_version = message.model_version
    return made


def request_to_proto(request: InferRequest) -> ModelInferRequest:
    raw = any(one.raw_data is not None or not isinstance(one.data, list) for one in request.inputs)
    return wire.request_to_proto(request_of_hook(request), request.model_name, request.model_version, raw=raw)


def response_from_proto(message: ModelInferResponse) -> InferResponse:
    answer = wire.response_from_proto(message)
    raw = bool(message.raw_output_contents)
    outputs = [_named(InferOutput, one, raw=raw) for one in answer.outputs]
    for one in outputs:
        one.parameters = one.parameters or {}
    return InferResponse(
        answer.id, answer.model_name, outputs, message.model_version, from_grpc=True, parameters=dict(answer.parameters)
    )


def response_to_proto(response: InferResponse) -> ModelInferResponse:
    raw = response.use_binary_outputs or any(one.raw_data is not None for one in response.outputs)
    return wire.response_to_proto(response_of_hook(response), raw=raw)


def _named(kind: type[_T], tensor: tensors.Tensor, *, raw: bool) -> _T:
    own = dict(tensor.parameters) or None
    if raw:
        made = kind(tensor.name, tensor.shape, tensor.datatype, None, own)
        made.take_raw(tensors.to_buffer(tensor))
        return made
    return kind(tensor.name, tensor.shape, tensor.datatype, tensors.to_values(tensor), own)
