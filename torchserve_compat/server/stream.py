"""An answer in pieces, on the server's side: what has arrived from the handler and has not left for the client yet."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from data_plane.errors import ClientTooSlow
from data_plane.limits import MAX_STREAM_BUFFER
from torchserve_compat.frames import Answer

# Of a piece that waits, beside its bytes: many empty ones take memory, too.
_PIECE_BYTES = 64


class Stream:
    """An iterator of the bodies of an answer's pieces; it raises what the answer broke off with. `on_close` learns that
    nobody reads them any more.

    `head` is the first piece, which has the answer's status, content type and headers. A reader that stops early calls
    `close` or `aclose`.
    """

    def __init__(self, head: Answer, on_close: Callable[[], object] = bool) -> None:
        self.head = head
        self._on_close = on_close
        self._waiting = deque([head.body])
        self._size = len(head.body) + _PIECE_BYTES
        self._error: Exception | None = None
        self._ended = False
        self._closed = False
        self._reader: asyncio.Future[None] | None = None

    # --- the handler's side

    def put(self, body: bytes) -> bool:
        """Adds a piece; False where nobody takes more of them."""
        if self._closed or self._ended:
            return False
        self._waiting.append(body)
        self._size += len(body) + _PIECE_BYTES
        if self._size > MAX_STREAM_BUFFER and len(self._waiting) > 1:  # one alone may be larger
            self._waiting.clear()
            self.fail(ClientTooSlow(f"The client left {MAX_STREAM_BUFFER} bytes of its answer unread."))
            return False
        self._wake()
        return True

    def end(self, last: bytes) -> None:
        """`last` is the last piece."""
        if self.put(last):
            self._ended = True

    def fail(self, error: Exception) -> None:
        """What the reader gets after the pieces that have arrived."""
        if not self._ended:
            self._ended, self._error = True, error
            self._wake()

    @property
    def is_over(self) -> bool:
        """Whether the reader has had all that there is."""
        return self._ended and not self._waiting and not self._error

    # --- the reader's side

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> bytes:
        while not self._waiting:
            if self._error:
                raise self._error
            if self._ended or self._closed:
                raise StopAsyncIteration
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        body = self._waiting.popleft()
        self._size -= len(body) + _PIECE_BYTES
        return body

    def close(self) -> None:
        """What is still to come is not wanted."""
        if not self._closed:
            self._closed = True
            self._waiting.clear()
            self._wake()
            self._on_close()

    async def aclose(self) -> None:
        """The same, as asynchronous iterators have it."""
        self.close()

    def _wake(self) -> None:
        if self._reader and not self._reader.done():
            self._reader.set_result(None)
