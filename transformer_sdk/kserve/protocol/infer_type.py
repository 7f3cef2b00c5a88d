"""Requests and responses of the v2 protocol for hooks: KServe's classes, over HTTP and gRPC."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import orjson

from data_plane.errors import InvalidRequest as BadDocument
from data_plane.protocol.v2.document import RequestDocument, ResponseDocument, parse, split_body
from transformer_sdk.kserve.errors import InvalidInput
from transformer_sdk.kserve.protocol.documents import join, read, write
from transformer_sdk.kserve.protocol.infer_tensor import InferInput, InferOutput
from transformer_sdk.kserve.protocol.parameters import for_grpc, values

if TYPE_CHECKING:
    import pandas as pd

    from data_plane.protocol.v2 import requests
    from data_plane.protocol.v2.open_inference_pb2 import ModelInferRequest, ModelInferResponse

__all__ = ["InferInput", "InferOutput", "InferRequest", "InferResponse", "RequestedOutput"]

Parameters = Mapping[str, Any]


class RequestedOutput:
    """An output that the client requests, and its form."""

    def __init__(self, name: str, parameters: Parameters | None = None) -> None:
        self.name = name
        self.parameters = parameters

    @property
    def binary_data(self) -> bool | None:
        """Whether the output is requested as raw bytes; None if not specified."""
        return (self.parameters or {}).get("binary_data")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RequestedOutput) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment] # they change

    def __repr__(self) -> str:
        return f"RequestedOutput(name={self.name!r}, parameters={self.parameters!r})"


class _Compared:
    """What requests and responses share: both are changed by hooks, and compared and shown by their fields."""

    _TENSORS: ClassVar[str]
    _ALSO: ClassVar[str]  # a field that is compared, and not shown

    def to_dict(self) -> dict[str, Any]:
        """Return everything except raw data."""
        own = {name: getattr(self, name) for name in ("id", "model_name", "parameters", "from_grpc")}
        return {**own, self._TENSORS: [one.to_dict() for one in getattr(self, self._TENSORS)]}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return False
        compared = (self._TENSORS, self._ALSO)
        return self.to_dict() == other.to_dict() and all(getattr(self, one) == getattr(other, one) for one in compared)

    __hash__ = None  # type: ignore[assignment] # they change

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.to_dict()!r})"


class InferRequest(_Compared):
    """Named inputs for a model."""

    _TENSORS, _ALSO = "inputs", "request_outputs"

    def __init__(
        self,
        model_name: str,
        infer_inputs: list[InferInput],
        request_id: str | None = None,
        raw_inputs: Sequence[bytes] | None = None,
        from_grpc: bool = False,
        parameters: Parameters | None = None,
        request_outputs: list[RequestedOutput] | None = None,
        model_version: str | None = None,
    ) -> None:
        self.id = request_id
        self.model_name = model_name
        self.inputs = infer_inputs
        self.parameters = parameters
        self.from_grpc = from_grpc  # type: ignore[method-assign, assignment] # KServe's, which hides the class's
        self.request_outputs = request_outputs
        self.model_version = model_version
        self.raw_inputs = bool(raw_inputs)
        for one, raw in zip(self.inputs, raw_inputs or (), strict=False):
            one.take_raw(raw)

    @property
    def use_binary_outputs(self) -> bool:
        """Whether all outputs are requested as raw bytes: by a parameter over HTTP, by raw inputs over gRPC."""
        if self.from_grpc is True:  # type: ignore[comparison-overlap]
            return self.raw_inputs
        return bool((self.parameters or {}).get("binary_data_output", False))

    @classmethod
    def from_bytes(cls, req_bytes: bytes, json_length: int | None, model_name: str) -> InferRequest:
        """Decode the body of an HTTP request; raises InvalidInput."""
        try:
            text, binary = split_body(req_bytes, json_length)
            document = parse(text, RequestDocument, model_name, takes_files=False)
            inputs = read(InferInput, document.inputs, binary)
        except BadDocument as error:
            raise InvalidInput(str(error)) from error
        outputs = [RequestedOutput(one.name, one.parameters) for one in document.outputs or ()] or None
        return cls(model_name, inputs, document.id, parameters=document.parameters, request_outputs=outputs)

    @classmethod
    def from_grpc(cls, request: ModelInferRequest) -> InferRequest:
        """Decode a gRPC message; raises InvalidInput."""
        from transformer_sdk.kserve.protocol import conversion

        decoded, raw = conversion.request_from_proto(request), bool(request.raw_input_contents)
        made = cls.from_tensors(decoded, request.model_name, raw=raw)
        made.model_version = request.model_version
        return made

    @classmethod
    def from_tensors(cls, request: requests.TensorRequest, model_name: str, *, raw: bool = False) -> InferRequest:
        """Convert a decoded gRPC request; `raw` if its inputs were sent as raw bytes."""
        from transformer_sdk.kserve.protocol import conversion

        inputs = conversion.tensors_to_hook(InferInput, request.inputs, raw=raw)
        outputs = [RequestedOutput(one.name, dict(one.parameters)) for one in request.outputs] or None
        made = cls(
            model_name, inputs, request.id, from_grpc=True, parameters=dict(request.parameters), request_outputs=outputs
        )
        made.raw_inputs = raw
        return made

    def to_tensors(self) -> requests.TensorRequest:
        """Convert to the data plane's type; raises InvalidInput if data, datatype and shape of an input differ."""
        from data_plane.protocol.v2 import requests

        try:
            outputs = (requests.OutputRequest(one.name, for_grpc(one.parameters)) for one in self.request_outputs or ())
            inputs = tuple(one.tensor() for one in self.inputs)
            return requests.TensorRequest(inputs, self.id, for_grpc(self.parameters), tuple(outputs))
        except BadDocument as error:
            raise InvalidInput(str(error)) from error

    def to_rest(self) -> tuple[bytes | dict[str, Any], int | None]:
        """Return the JSON document; or, with raw inputs, the body and the length of its JSON. Raises InvalidInput."""
        described, buffers = write((one, one.raw_data is not None) for one in self.inputs)
        document: dict[str, Any] = {
            "id": self.id or str(uuid.uuid4()),
            "model_name": self.model_name,
            "inputs": described,
        }
        if self.request_outputs:
            document["outputs"] = [
                {"name": one.name, **({"parameters": values(one.parameters)} if one.parameters else {})}
                for one in self.request_outputs
            ]
        if self.parameters:
            document["parameters"] = values(self.parameters)
        return join(document, buffers)

    def to_grpc(self) -> ModelInferRequest:
        """Return the gRPC message; raises InvalidInput."""
        from data_plane.protocol.v2 import grpc as wire

        raw = any(one.raw_data is not None or not isinstance(one.data, list) for one in self.inputs)
        return wire.request_to_proto(self.to_tensors(), self.model_name, self.model_version, raw=raw)

    def as_dataframe(self) -> pd.DataFrame:
        """Return a data frame with a column for each input; needs pandas."""
        import pandas as pd

        columns = {one.name: one.as_string() if one.datatype == "BYTES" else one.data for one in self.inputs}
        return pd.concat([pd.DataFrame(data, columns=[name]) for name, data in columns.items()], axis=1)

    def get_input_by_name(self, name: str) -> InferInput | None:
        return next((one for one in self.inputs if one.name == name), None)


class InferResponse(_Compared):
    """Named outputs of a model."""

    _TENSORS, _ALSO = "outputs", "model_version"

    def __init__(
        self,
        response_id: str | None,
        model_name: str,
        infer_outputs: list[InferOutput],
        model_version: str | None = None,
        raw_outputs: Sequence[bytes] | None = None,
        from_grpc: bool = False,
        parameters: Parameters | None = None,
        use_binary_outputs: bool = False,
        requested_outputs: list[RequestedOutput] | None = None,
    ) -> None:
        self.id = response_id
        self.model_name = model_name
        self.model_version = model_version
        self.outputs = infer_outputs
        self.parameters = parameters
        self.from_grpc = from_grpc  # type: ignore[method-assign, assignment] # KServe's, which hides the class's
        self._requested_outputs = requested_outputs
        self.use_binary_outputs = use_binary_outputs
        for one, raw in zip(self.outputs, raw_outputs or (), strict=False):
            one.take_raw(raw)

    @classmethod
    def from_bytes(cls, res_bytes: bytes, json_length: int | None) -> InferResponse:
        """Decode the body of an HTTP response; raises InvalidInput."""
        try:
            text, binary = split_body(res_bytes, json_length)
            return cls._of(parse(text, ResponseDocument, takes_files=False), binary)
        except BadDocument as error:
            raise InvalidInput(str(error)) from error

    @classmethod
    def from_rest(cls, response: Mapping[str, Any]) -> InferResponse:
        """Decode the JSON document of an HTTP response; raises InvalidInput."""
        return cls.from_bytes(orjson.dumps(response, option=orjson.OPT_SERIALIZE_NUMPY), None)

    @classmethod
    def from_grpc(cls, response: ModelInferResponse) -> InferResponse:
        """Decode a gRPC message; raises InvalidInput."""
        from data_plane.protocol.v2 import grpc as wire
        from transformer_sdk.kserve.protocol import conversion

        decoded, raw = wire.response_from_proto(response), bool(response.raw_output_contents)
        outputs = conversion.tensors_to_hook(InferOutput, decoded.outputs, raw=raw)
        for one in outputs:
            one.parameters = one.parameters or {}
        return cls(
            decoded.id, decoded.model_name, outputs, response.model_version,
            from_grpc=True, parameters=dict(decoded.parameters),
        )  # fmt: skip

    def to_tensors(self) -> requests.TensorResponse:
        """Convert to the data plane's type; raises InvalidInput if data, datatype and shape of an output differ."""
        from data_plane.protocol.v2 import requests

        outputs = tuple(one.tensor() for one in self.outputs)
        return requests.TensorResponse(self.model_name, self.model_version, outputs, self.id, for_grpc(self.parameters))

    def set_defaults_from(self, request: InferRequest) -> None:
        """Set id, requested outputs and their form from the request, where the hook did not set them."""
        self.id = self.id or request.id
        self._requested_outputs = self._requested_outputs or request.request_outputs
        self.use_binary_outputs = self.use_binary_outputs or request.use_binary_outputs

    def requested(self) -> list[tuple[InferOutput, bool]]:
        """Return the outputs in the client's order, and whether each is sent as raw bytes; raises InvalidInput."""
        if not self._requested_outputs:
            return [(one, self.use_binary_outputs) for one in self.outputs]
        found = []
        for one in self._requested_outputs:
            output = self.get_output_by_name(one.name)
            if output is None:
                raise InvalidInput(f"Unexpected inference output '{one.name}' for model '{self.model_name}'")
            found.append((output, self.use_binary_outputs if one.binary_data is None else one.binary_data))
        return found

    def to_rest(self) -> tuple[bytes | dict[str, Any], int | None]:
        """Return the JSON document; or, with raw outputs, the body and the length of its JSON. Raises InvalidInput."""
        described, buffers = write(self.requested())
        document: dict[str, Any] = {
            "id": self.id,
            "model_name": self.model_name,
            "model_version": self.model_version,
            "outputs": described,
        }
        if self.parameters:
            document["parameters"] = values(self.parameters)
        return join(document, buffers)

    def to_grpc(self) -> ModelInferResponse:
        """Return the gRPC message; raises InvalidInput."""
        from data_plane.protocol.v2 import grpc as wire

        raw = self.use_binary_outputs or any(one.raw_data is not None for one in self.outputs)
        return wire.response_to_proto(self.to_tensors(), raw=raw)

    def get_output_by_name(self, name: str) -> InferOutput | None:
        return next((one for one in self.outputs if one.name == name), None)

    @classmethod
    def _of(cls, document: ResponseDocument, binary: memoryview) -> InferResponse:
        outputs = read(InferOutput, document.outputs, binary)
        return cls(
            _text(document.id), document.model_name, outputs, _text(document.model_version),
            parameters=document.parameters,
        )  # fmt: skip


def _text(value: str | int | None) -> str | None:
    return None if value is None else str(value)
