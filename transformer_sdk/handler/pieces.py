"""What a handler sends ahead of its result with TorchServe's `send_intermediate_predict_response`.

TorchServe writes it to the client at once. Here an answer travels whole: the pieces are kept, and go in front of the
result. In the handler's process; needs the `torchserve` wheel for its exceptions.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator

from ts.utils.util import PredictionException

from transformer_sdk.handler.frames import Batch
from transformer_sdk.handler.values import HandlerOutputError

_INT = struct.Struct("!i")
_END = -1
_NOT_OFFERED = 501


class Pieces:
    """In the place of the socket that a handler finds in its context."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._of: defaultdict[str, bytearray] = defaultdict(bytearray)

    def sendall(self, message: bytes) -> None:
        """Keeps the bodies in a message, each for its request."""
        self._check()
        for request, body in _bodies(_Reader(message)):
            self._of[request] += body

    def before(self, request: str, body: bytes) -> bytes:
        """The whole answer to this request, whose last piece is `body`."""
        return bytes(self._of[request]) + body if request in self._of else body

    def _check(self) -> None:
        if self._batch.form not in ("raw", "raw-explain"):
            raise PredictionException(
                "The handler sends its answer in pieces, which the v1 and v2 protocols have no room for; "
                "ask it by /predictions/<model>.",
                _NOT_OFFERED,
            )
        if len({request.id for request in self._batch.requests}) < len(self._batch.requests):
            raise HandlerOutputError("requests of the same id came together")  # retried one by one


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


def _bodies(message: _Reader) -> Iterator[tuple[str, bytes]]:
    """Each answer's request and body. What else there is the context knows as well: status, type, headers."""
    message.number()  # code
    message.field()  # its text
    while (size := message.number()) != _END:
        request = message.field(size).decode()
        message.field()  # content type
        message.number()  # status
        message.field()  # its text
        for _ in range(2 * message.number()):
            message.field()  # names and values of headers
        yield request, message.field()
