"""Pieces that a handler sends before its result, with TorchServe's `send_intermediate_predict_response`.

Runs in the handler's process; needs the `torchserve` wheel for its exceptions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from ts.utils.util import PredictionException

from torchserve_compat.frames import HandlerBatch, HandlerResponse, Piece
from torchserve_compat.values import HandlerOutputError, headers_of

# Sends a piece to the server.
Emit = Callable[[Piece], object]

_INT = struct.Struct("!i")
_END = -1
_NOT_IMPLEMENTED = 501


class PieceSocket:
    """Replaces the socket in a handler's context: passes pieces of responses to `emit`."""

    def __init__(self, batch: HandlerBatch, emit: Emit) -> None:
        self._batch = batch
        self._emit = emit

    def sendall(self, message: bytes) -> None:
        """Pass on the pieces in a message of TorchServe's own protocol, each to its request."""
        self._check()
        for request, response in _pieces_in(_MessageReader(message)):
            self._emit(Piece(request, self._encoded(response)))

    def _check(self) -> None:
        if self._batch.form not in ("raw", "raw-explain", "v2"):
            raise PredictionException(
                "The handler streams its response, which the v1 protocol does not support; use /predictions/<model>.",
                _NOT_IMPLEMENTED,
            )
        if len({request.id for request in self._batch.requests}) < len(self._batch.requests):
            raise HandlerOutputError("requests of the same id came together")  # retried one by one

    def _encoded(self, response: HandlerResponse) -> HandlerResponse:
        if self._batch.form != "v2":
            return response
        from torchserve_compat import tensors

        return HandlerResponse(tensors.encode_result(response.body), response.status, tensors.CONTENT_TYPE)


class RefusingSocket:
    """Replaces that socket for a handler of a running batch, which returns its pieces step by step."""

    def sendall(self, message: bytes) -> None:  # noqa: ARG002
        """Raises HandlerOutputError."""
        raise HandlerOutputError(
            "With continuousBatching, a handler returns each piece of a response; it cannot send pieces between steps"
        )


class _MessageReader:
    """Reads the fields of TorchServe's protocol with its workers: integers, and bytes after their length."""

    def __init__(self, message: bytes) -> None:
        self._message = message
        self._position = 0

    def number(self) -> int:
        (number,) = _INT.unpack_from(self._message, self._position)
        self._position += _INT.size
        return int(number)

    def field(self, size: int | None = None) -> bytes:
        size = self.number() if size is None else size
        start, self._position = self._position, self._position + size
        return bytes(self._message[start : self._position])

    def text(self) -> str:
        return self.field().decode()


def _pieces_in(message: _MessageReader) -> Iterator[tuple[str, HandlerResponse]]:
    """Yield the id of each request and the piece of its response."""
    message.number()  # code
    message.field()  # its text
    while (size := message.number()) != _END:
        request = message.field(size).decode()
        content_type, status = message.text(), message.number()
        message.field()  # the status' text
        headers = headers_of({message.text(): message.text() for _ in range(message.number())})
        headers.pop("content-type", None)
        yield request, HandlerResponse(message.field(), status, content_type, list(headers.items()))
