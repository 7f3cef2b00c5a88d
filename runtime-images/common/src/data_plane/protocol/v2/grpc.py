"""The gRPC form of the Open Inference Protocol: convert protobuf messages to and from the dataclasses. Pure.

A message has the data of all its tensors either as typed contents or as raw contents. FP16 and BF16 have no typed
contents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from data_plane.errors import InvalidRequest, UpstreamBroken
from data_plane.limits import MAX_PARAMETERS, MAX_TENSORS
from data_plane.protocol.v2 import open_inference_pb2 as pb
from data_plane.protocol.v2 import tensors
from data_plane.protocol.v2.datatypes import DATATYPES
from data_plane.protocol.v2.document import Parameter
from data_plane.protocol.v2.fields import varint
from data_plane.protocol.v2.requests import (
    ModelMetadata,
    OutputRequest,
    TensorMetadata,
    TensorRequest,
    TensorResponse,
)
from data_plane.protocol.v2.tensors import Tensor

_WireTensor = pb.ModelInferRequest.InferInputTensor | pb.ModelInferResponse.InferOutputTensor

_CONTENTS = {each.name: each.contents for each in DATATYPES.values() if each.contents}

# The tags of a ModelInferRequest's first two fields: their number and the wire type of values with a length.
_NAME, _VERSION = (
    bytes([number << 3 | 2])
    for number in (pb.ModelInferRequest.MODEL_NAME_FIELD_NUMBER, pb.ModelInferRequest.MODEL_VERSION_FIELD_NUMBER)
)
_ITEMS = 64 * 1024  # elements that are copied at a time: other threads run in between


def addressee(message: bytes) -> tuple[str, str]:
    """Return the name and version of the model from a serialized ModelInferRequest, without parsing the rest.

    They are its first fields, written in this order; otherwise the name is empty.
    """
    found = ["", ""]
    position = 0
    for index, tag in enumerate((_NAME, _VERSION)):
        if message[position : position + 1] == tag:
            length, position = varint(message, position + 1)
            found[index] = message[position : position + length].decode(errors="replace")
            position += length
    name, version = found
    return name, version


def request_from_proto(message: pb.ModelInferRequest) -> TensorRequest:
    """Return the request in a message; raises InvalidRequest."""
    for what, found in (("inputs", message.inputs), ("outputs", message.outputs)):
        if len(found) > MAX_TENSORS:
            raise InvalidRequest(f"The request has {len(found)} {what}; at most {MAX_TENSORS} are served.")
    return TensorRequest(
        inputs=_read_tensors(message.inputs, message.raw_input_contents),
        id=message.id or None,
        parameters=_read_parameters(message.parameters),
        outputs=tuple(OutputRequest(output.name, _read_parameters(output.parameters)) for output in message.outputs),
    )


def response_to_proto(response: TensorResponse, *, raw: bool = False) -> pb.ModelInferResponse:
    """Return the response as a message, with raw contents if `raw`, as in the request."""
    message = pb.ModelInferResponse(
        model_name=response.model_name,
        model_version=response.model_version or "",
        id=response.id or "",
        parameters=_write_parameters(response.parameters),
    )
    raw = raw or _needs_raw(response.outputs)
    for tensor in response.outputs:
        _write_tensor(message.outputs.add(), tensor, contents=not raw)
    if raw:
        message.raw_output_contents.extend(map(tensors.to_buffer, response.outputs))
    return message


def request_to_proto(
    request: TensorRequest, model_name: str, model_version: str | None = None, *, raw: bool = True
) -> pb.ModelInferRequest:
    """Return the request as a message, for clients."""
    message = pb.ModelInferRequest(
        model_name=model_name,
        model_version=model_version or "",
        id=request.id or "",
        parameters=_write_parameters(request.parameters),
    )
    raw = raw or _needs_raw(request.inputs)
    for tensor in request.inputs:
        _write_tensor(message.inputs.add(), tensor, contents=not raw)
    if raw:
        message.raw_input_contents.extend(map(tensors.to_buffer, request.inputs))
    for output in request.outputs:
        message.outputs.add(name=output.name, parameters=_write_parameters(output.parameters))
    return message


def response_from_proto(message: pb.ModelInferResponse) -> TensorResponse:
    """Return the response in a message, for clients; raises UpstreamBroken."""
    try:
        outputs = _read_tensors(message.outputs, message.raw_output_contents)
    except InvalidRequest as error:
        raise UpstreamBroken(f"The response is not of the v2 protocol. {error}") from error
    return TensorResponse(
        message.model_name,
        message.model_version or None,
        outputs,
        message.id or None,
        _read_parameters(message.parameters),
    )


def metadata_to_proto(metadata: ModelMetadata) -> pb.ModelMetadataResponse:
    """Return the metadata of a model as a message."""
    return pb.ModelMetadataResponse(
        name=metadata.name,
        versions=metadata.versions,
        platform=metadata.platform,
        inputs=map(_tensor_metadata, metadata.inputs),
        outputs=map(_tensor_metadata, metadata.outputs),
    )


def _tensor_metadata(tensor: TensorMetadata) -> pb.ModelMetadataResponse.TensorMetadata:
    return pb.ModelMetadataResponse.TensorMetadata(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)


def _read_tensors(described: Sequence[_WireTensor], buffers: Sequence[bytes]) -> tuple[Tensor, ...]:
    if not buffers:
        return tuple(map(_from_contents, described))
    if len(buffers) != len(described):
        raise InvalidRequest(
            f"There are {len(described)} tensors and {len(buffers)} raw contents; send one for each tensor, or none."
        )
    return tuple(map(_from_raw, described, buffers))


def _from_raw(tensor: _WireTensor, buffer: bytes) -> Tensor:
    if tensor.HasField("contents"):
        raise InvalidRequest(f'Tensor "{tensor.name}" has contents, and there are raw contents; send one of them.')
    return tensors.from_buffer(
        tensor.name,
        tensor.datatype,
        tensor.shape,
        buffer=memoryview(buffer),
        parameters=_read_parameters(tensor.parameters),
    )


def _from_contents(tensor: _WireTensor) -> Tensor:
    field = _CONTENTS.get(tensor.datatype)
    if field is None:
        tensors.dtype(tensor.name, tensor.datatype)
        raise InvalidRequest(f'Tensor "{tensor.name}": {tensor.datatype} has no typed contents; send raw contents.')
    for filled, _ in tensor.contents.ListFields():
        if filled.name != field:
            raise InvalidRequest(
                f'Tensor "{tensor.name}" is {tensor.datatype} and has {filled.name}; {tensor.datatype} goes in {field}.'
            )
    contents = getattr(tensor.contents, field)
    values = [one for start in range(0, len(contents), _ITEMS) for one in contents[start : start + _ITEMS]]
    return tensors.from_values(
        tensor.name, tensor.datatype, tensor.shape, values=values, parameters=_read_parameters(tensor.parameters)
    )


def _needs_raw(outputs: Iterable[Tensor]) -> bool:
    return any(tensor.datatype not in _CONTENTS for tensor in outputs)


def _write_tensor(wire: _WireTensor, tensor: Tensor, *, contents: bool) -> None:
    wire.name = tensor.name
    wire.datatype = tensor.datatype
    wire.shape.extend(tensor.shape)
    for name, parameter in _write_parameters(tensor.parameters).items():
        wire.parameters[name].CopyFrom(parameter)
    if contents:
        wire.contents.SetInParent()
        typed, flat = getattr(wire.contents, _CONTENTS[tensor.datatype]), tensors.to_flat(tensor)
        for start in range(0, len(flat), _ITEMS):
            typed.extend(flat[start : start + _ITEMS].tolist())


def _read_parameters(parameters: Mapping[str, pb.InferParameter]) -> dict[str, Parameter]:
    if len(parameters) > MAX_PARAMETERS:
        raise InvalidRequest(
            f"There are {len(parameters)} parameters in one place; at most {MAX_PARAMETERS} are served."
        )
    found: dict[str, Parameter] = {}
    for name, parameter in parameters.items():
        choice = parameter.WhichOneof("parameter_choice")
        if choice is None:
            raise InvalidRequest(f'The parameter "{name}" has no value.')
        found[name] = getattr(parameter, choice)
    return found


def _write_parameters(parameters: Mapping[str, Parameter]) -> dict[str, pb.InferParameter]:
    return {name: _write_parameter(value) for name, value in parameters.items()}


def _write_parameter(value: Parameter) -> pb.InferParameter:
    match value:
        case bool():
            return pb.InferParameter(bool_param=value)
        case int() if value >= 2**63:
            return pb.InferParameter(uint64_param=value)
        case int():
            return pb.InferParameter(int64_param=value)
        case float():
            return pb.InferParameter(double_param=value)
        case _:
            return pb.InferParameter(string_param=value)
