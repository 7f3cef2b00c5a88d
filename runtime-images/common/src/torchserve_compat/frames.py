"""The messages between the server and a handler, each one msgpack frame: a batch of requests, and its responses.

Both ends ship together, so structs are encoded as arrays, without their field names.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

CONTENT_TYPE = "application/vnd.isvc.batch"
# The content type of a response that refuses a request before the handler sees it: the body is the message of a
# ServingError, and the status is the error's.
REFUSAL = "application/vnd.isvc.refusal"

# The API through which the requests of a batch came. The envelope turns each form into the handler's input.
Form = Literal["v1", "explain", "v2", "raw", "raw-explain"]


class RequestPart(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One named part of a request: its body, a form field, a file, or a query parameter."""

    name: str
    content_type: str
    value: bytes


class HandlerRequest(msgspec.Struct, frozen=True, array_like=True):
    """One client's request; `more` has the fields of a v2 request's JSON other than its id and its inputs."""

    id: str
    headers: tuple[tuple[bytes, bytes], ...]
    parts: list[RequestPart]
    more: dict[str, Any] | None = None


class HandlerBatch(msgspec.Struct, frozen=True, array_like=True):
    form: Form
    requests: list[HandlerRequest]


class HandlerResponse(msgspec.Struct, frozen=True, array_like=True):
    """The response to one request; without a content type, the server chooses one."""

    body: bytes
    status: int = 200
    content_type: str = ""
    headers: list[tuple[str, str]] = []


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """A part of the response to one request, sent while the handler still computes the rest.

    Status, content type and headers are those of the first piece.
    """

    request: str  # its id
    response: HandlerResponse


class HandlerFailure(msgspec.Struct, frozen=True, array_like=True):
    """The handler failed on the whole batch. `alone`: it cannot process merged requests at all."""

    message: str
    status: int
    alone: bool = False


class Sample(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One value that the handler reported through `context.metrics`."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    value: float
    labels: dict[str, str]


class HandlerResult(msgspec.Struct, frozen=True, array_like=True):
    """A response to each request of the batch, or its failure, and the seconds that the handler took."""

    responses: list[HandlerResponse]
    seconds: float
    failure: HandlerFailure | None = None
    samples: list[Sample] = []


encode = msgspec.msgpack.Encoder().encode
# Each raises msgspec.DecodeError.
decode_batch = msgspec.msgpack.Decoder(HandlerBatch).decode
decode_piece = msgspec.msgpack.Decoder(Piece).decode
decode_result = msgspec.msgpack.Decoder(HandlerResult).decode
