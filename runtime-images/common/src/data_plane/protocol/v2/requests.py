"""Requests, responses and metadata of the Open Inference Protocol, independent of the wire format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from data_plane.errors import InvalidRequest
from data_plane.protocol.v2.document import Parameter
from data_plane.protocol.v2.tensors import Tensor


@dataclass(frozen=True, slots=True)
class OutputRequest:
    name: str
    parameters: Mapping[str, Parameter] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TensorRequest:
    """A request with at least one named input. Empty `outputs` request all outputs of the model."""

    inputs: tuple[Tensor, ...]
    id: str | None = None
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    outputs: tuple[OutputRequest, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all data; of each element of BYTES, those of a pointer."""
        return sum([tensor.data.nbytes for tensor in self.inputs])

    def __post_init__(self) -> None:
        if not self.inputs:
            raise InvalidRequest("The request has no inputs; send at least one.")
        _check_distinct("inputs", [tensor.name for tensor in self.inputs])
        _check_distinct("requested outputs", [output.name for output in self.outputs])


@dataclass(frozen=True, slots=True)
class TensorResponse:
    """A response with named outputs; `is_last` is False if further parts of a streamed response follow."""

    model_name: str
    model_version: str | None
    outputs: tuple[Tensor, ...]
    id: str | None = None
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    is_last: bool = True

    @property
    def size(self) -> int:
        """Bytes of all data; of each element of BYTES, those of a pointer."""
        return sum([tensor.data.nbytes for tensor in self.outputs])


@dataclass(frozen=True, slots=True)
class TensorMetadata:
    """The type of an input or output of a model; -1 in its shape stands for any size."""

    name: str
    datatype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    name: str
    versions: tuple[str, ...]
    platform: str
    inputs: tuple[TensorMetadata, ...]
    outputs: tuple[TensorMetadata, ...]


def wanted_outputs(request: TensorRequest, response: TensorResponse) -> tuple[Tensor, ...]:
    """Return the requested outputs in their order; raises InvalidRequest for one that the model does not have."""
    if not request.outputs:
        return response.outputs
    by_name = {output.name: output for output in response.outputs}
    for wanted in request.outputs:
        if wanted.name not in by_name:
            raise InvalidRequest(
                f'Model {response.model_name} has no output "{wanted.name}"; its outputs are {", ".join(by_name)}.'
            )
    return tuple(by_name[wanted.name] for wanted in request.outputs)


def _check_distinct(what: str, names: list[str]) -> None:
    if len(set(names)) < len(names):
        ((twice, _),) = Counter(names).most_common(1)
        raise InvalidRequest(f'Several {what} are called "{twice}"; give each a name of its own.')
