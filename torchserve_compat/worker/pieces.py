"""What a handler sends ahead of its result with TorchServe's `send_intermediate_predict_response`.

In the handler's process; needs the `torchserve` wheel for its exceptions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from ts.utils.util import PredictionException

from torchserve_compat.frames import Answer, Batch, Piece
from torchserve_compat.values import HandlerOutputError, headers_of

# Takes a piece to where its request came from.
Emit = Callable[[Piece], object]

_INT = struct.Struct("!i")
_END = -1
_NOT_OFFERED = 501


class Pieces:
    """In the place of the socket that a handler finds in its context: sends pieces of answers to `emit`."""

    def __init__(self, batch: Batch, emit: Emit) -> None:
        self._batch = batch
        self._emit = emit

    def sendall(self, message: bytes) -> None:
        """Sends on the answers in a message of TorchServe's own protocol, each to its request."""
        self._check()
        for request, answer in _answers(_Reader(message)):
            self._emit(Piece(request, self._encoded(answer)))

    def _check(self) -> None:
        if self._batch.form not in ("raw", "raw-explain", "v2"):
            raise PredictionException(
                "The handler sends its answer in pieces, which the v1 protocol has no room for; "
                "ask it by /predictions/<model>.",
                _NOT_OFFERED,
            )
        if len({request.id for request in self._batch.requests}) < len(self._batch.requests):
            raise HandlerOutputError("requests of the same id came together")  # retried one by one

    def _encoded(self, answer: Answer) -> Answer:
        if self._batch.form != "v2":
            return answer
        from torchserve_compat import tensors

        return Answer(tensors.encode_result(answer.body), answer.status, tensors.CONTENT_TYPE)


class NoPieces:
    """In the place of that socket for a handler of a running batch, which returns its pieces step by step."""

    def sendall(self, message: bytes) -> None:  # noqa: ARG002
        """Raises HandlerOutputError."""
        raise HandlerOutputError(
            "With continuousBatching a handler returns each piece of an answer; it sends none in between"
        )


class _Reader:
    """Fields of TorchServe's protocol between its workers and itself: whole numbers, and bytes after their length."""

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


def _answers(message: _Reader) -> Iterator[tuple[str, Answer]]:
    """Each request's id, and the piece of its answer."""
    message.number()  # code
    message.field()  # its text
    while (size := message.number()) != _END:
        request = message.field(size).decode()
        content_type, status = message.text(), message.number()
        message.field()  # the status' text
        headers = headers_of({message.text(): message.text() for _ in range(message.number())})
        headers.pop("content-type", None)
        yield request, Answer(message.field(), status, content_type, list(headers.items()))
