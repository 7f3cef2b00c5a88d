"""One request and its response: their payloads get the same id and the same headers."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from data_plane.limits import PAYLOAD_OVERHEAD
from data_plane.messages import Headers
from data_plane.payload_logger.events import Payload, PayloadKind
from data_plane.payload_logger.queue import Drop, PayloadQueue

_OK = 200  # KServe's agent logs no other responses


class LoggedExchange(msgspec.Struct, frozen=True):
    queue: PayloadQueue
    id: str
    headers: Headers  # those that are sent with the payloads
    logs_response: bool

    def log(self, kind: PayloadKind, content_type: bytes, pieces: Sequence[bytes]) -> None:
        """Log one payload, or count why it is dropped."""
        payload = OpenPayload(self, kind)
        payload.add(*pieces)
        payload.end(content_type)

    def respond(self, content_type: bytes, pieces: Sequence[bytes], status: int = _OK) -> None:
        if self.logs_response and status == _OK:
            self.log(PayloadKind.RESPONSE, content_type, pieces)

    def stream(self, status: int = _OK) -> OpenPayload | None:
        """Return a response that is logged as one payload when it ends, however it ends; None for one that is not."""
        return OpenPayload(self, PayloadKind.RESPONSE) if self.logs_response and status == _OK else None


class OpenPayload:
    """A payload to which pieces are added; what they hold is counted from the first one."""

    def __init__(self, exchange: LoggedExchange, kind: PayloadKind) -> None:
        self._exchange = exchange
        self._queue = exchange.queue
        self._kind = kind
        self._pieces: list[bytes] = []
        self._size = 0
        self._drop: Drop | None = None
        self._hold(PAYLOAD_OVERHEAD + sum([len(name) + len(value) for name, value in exchange.headers]))

    def add(self, *pieces: bytes) -> None:
        """Keep pieces that are being sent."""
        self._hold(sum(map(len, pieces)))
        if not self._drop:
            self._pieces += pieces

    def end(self, content_type: bytes) -> None:
        """Log the pieces if there are any, or count why they are dropped."""
        exchange = self._exchange
        if self._drop:
            self._queue.dropped(self._kind, self._drop)
        elif not self._pieces:  # an error came first
            self._queue.release(self._size)
        else:
            self._queue.put(
                Payload(self._kind, exchange.id, content_type, self._pieces, exchange.headers, time.time(), self._size)
            )

    def _hold(self, size: int) -> None:
        if self._drop:
            return
        self._drop = self._queue.hold(size, self._size)
        if self._drop:
            self._queue.release(self._size)
            self._pieces, self._size = [], 0
        else:
            self._size += size
