"""A batch of requests on its way to a handler, and its answers on the way back: one msgpack frame each.

Both ends ship together, so structs travel as arrays, without their field names.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

CONTENT_TYPE = "application/vnd.isvc.batch"
# An answer of this type says why the request was refused before the handler saw it: its body is the message of a
# ServingError, its status the error's.
REFUSAL = "application/vnd.isvc.refusal"

# Which form the requests of a batch have; the handler's envelope decides what the handler sees of it.
Form = Literal["v1", "explain", "v2", "raw", "raw-explain"]


class Part(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One named piece of a request: its body, a field of a form, a file, a parameter of the query."""

    name: str
    content_type: str
    value: bytes


class Request(msgspec.Struct, frozen=True, array_like=True):
    """One client's request; `more` is what the JSON of a v2 request says besides its id and its inputs."""

    id: str
    headers: tuple[tuple[bytes, bytes], ...]
    parts: list[Part]
    more: dict[str, Any] | None = None


class Batch(msgspec.Struct, frozen=True, array_like=True):
    """Requests of one form."""

    form: Form
    requests: list[Request]


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """What one client gets; without a content type the server chooses."""

    body: bytes
    status: int = 200
    content_type: str = ""
    headers: list[tuple[str, str]] = []


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """A part of the answer to one request, sent while the handler still works on the rest.

    Only the first piece's status, content type and headers count.
    """

    request: str  # its id
    answer: Answer


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """The handler failed on the batch as a whole; with `alone` it cannot take merged requests at all."""

    message: str
    status: int
    alone: bool = False


class Sample(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One value that the handler reported by `context.metrics`."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    value: float
    labels: dict[str, str]


class Result(msgspec.Struct, frozen=True, array_like=True):
    """An answer for each request of the batch, or its failure; and how long the handler took, in seconds."""

    answers: list[Answer]
    seconds: float
    failure: Failure | None = None
    samples: list[Sample] = []


_batch = msgspec.msgpack.Decoder(Batch)
_piece = msgspec.msgpack.Decoder(Piece)
_result = msgspec.msgpack.Decoder(Result)
_encode = msgspec.msgpack.Encoder().encode


def encode(message: Batch | Piece | Result) -> bytes:
    """The frame of a message."""
    return _encode(message)


def decode_batch(frame: bytes | bytearray) -> Batch:
    """Raises msgspec.DecodeError for what is no batch."""
    return _batch.decode(frame)


def decode_piece(frame: bytes) -> Piece:
    """Raises msgspec.DecodeError for what is no piece."""
    return _piece.decode(frame)


def decode_result(frame: bytes) -> Result:
    """Raises msgspec.DecodeError for what is no result."""
    return _result.decode(frame)
