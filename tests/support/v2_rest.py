"""The client's side of the v2 protocol over HTTP, with the server's own reading and writing of tensors."""

from __future__ import annotations

from data_plane.protocol.v2 import rest
from data_plane.protocol.v2.document import ResponseDocument, parse, split_body
from data_plane.protocol.v2.requests import TensorRequest, TensorResponse


def encode_request(request: TensorRequest, *, binary: bool = False) -> tuple[bytes, int | None]:
    """Return the body of a request and, with `binary`, for which all inputs are binary data, the length of its JSON."""
    described, buffers = rest._write_tensors((tensor, binary) for tensor in request.inputs)
    outputs = [{"name": output.name, **rest._given(parameters=output.parameters)} for output in request.outputs]
    document = {"inputs": described, **rest._given(id=request.id, parameters=request.parameters, outputs=outputs)}
    return rest._join(document, buffers)


def decode_response(body: bytes, json_length: int | None = None) -> TensorResponse:
    """Decode the body of a response; raises InvalidRequest."""
    text, binary = split_body(body, json_length)
    document = parse(text, ResponseDocument)
    outputs = rest._read_tensors(document.outputs, binary)
    return TensorResponse(document.model_name, document.model_version, outputs, document.id, document.parameters or {})
