"""Streamed responses in the server: the pieces that the handler has sent and the client has not received yet."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from data_plane.batching.queue import Batch
from data_plane.errors import ClientGone, ClientTooSlow
from data_plane.limits import MAX_STREAM_BUFFER
from torchserve_compat import frames
from torchserve_compat.frames import HandlerResponse

# The overhead of a buffered piece: many empty ones take memory, too.
_PIECE_BYTES = 64


class Stream:
    """An iterator over the bodies of a response's pieces; it raises the error that ended the response early.

    `head` is the first piece, with the response's status, content type and headers. A reader that stops early calls
    `close` or `aclose`; then `on_close` is called.
    """

    def __init__(self, head: HandlerResponse, on_close: Callable[[], object] = bool) -> None:
        self.head = head
        self._on_close = on_close
        self._waiting = deque([head.body])
        self._size = len(head.body) + _PIECE_BYTES
        self._error: Exception | None = None
        self._ended = False
        self._closed = False
        self._reader: asyncio.Future[None] | None = None

    # --- for the handler

    def put(self, body: bytes) -> bool:
        """Add a piece; return False if no more are wanted."""
        if self._closed or self._ended:
            return False
        self._waiting.append(body)
        self._size += len(body) + _PIECE_BYTES
        if self._size > MAX_STREAM_BUFFER and len(self._waiting) > 1:  # a single piece may be larger
            self._waiting.clear()
            self.fail(ClientTooSlow(f"The client left {MAX_STREAM_BUFFER} bytes of its response unread."))
            return False
        self._wake()
        return True

    def end(self, last: bytes) -> None:
        if self.put(last):
            self._ended = True

    def fail(self, error: Exception) -> None:
        """Raise `error` in the reader after the pieces that have arrived."""
        if not self._ended:
            self._ended, self._error = True, error
            self._wake()

    @property
    def is_over(self) -> bool:
        return self._ended and not self._waiting and not self._error

    # --- for the reader

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
        """Discard all pieces, also those that arrive later."""
        if not self._closed:
            self._closed = True
            self._waiting.clear()
            self._wake()
            self._on_close()

    async def aclose(self) -> None:
        """Call `close`, as the protocol of asynchronous generators requires."""
        self.close()

    def _wake(self) -> None:
        if self._reader and not self._reader.done():
            self._reader.set_result(None)


class BatchStreams:
    """Passes the pieces of a batch's responses to their clients; a response starts with its first piece."""

    __slots__ = ("_batch", "_is_closed", "_sending", "_streams")

    def __init__(self, batch: Batch[frames.HandlerRequest]) -> None:
        self._batch = batch
        self._streams: dict[int, Stream] = {}  # by the request's index
        self._sending: asyncio.Future[frames.HandlerResult] | None = None
        self._is_closed = False

    async def while_read(self, sending: Coroutine[Any, Any, frames.HandlerResult]) -> frames.HandlerResult:
        """Return the result of a single request; raises ClientGone as soon as its client stops reading."""
        self._sending = asyncio.ensure_future(sending)
        try:
            return await self._sending
        except asyncio.CancelledError:
            if self._is_closed:
                raise ClientGone from None
            self._sending.cancel()
            raise

    def _close(self) -> None:
        if self._sending:
            self._is_closed = True
            self._sending.cancel()

    def take(self, piece: frames.Piece) -> bool:
        """Pass on a piece; return False if no more pieces are wanted for its request."""
        indices = (index for index, request in enumerate(self._batch.payloads) if request.id == piece.request)
        index = next(indices, None)
        if index is None:  # a handler may write any id
            return False
        if stream := self._streams.get(index):
            return stream.put(piece.response.body)
        stream = Stream(piece.response, self._close)
        if not self._batch.answer_early(index, stream):
            return False
        self._streams[index] = stream
        return True

    def end(self, responses: Sequence[HandlerResponse]) -> None:
        for index, stream in self._streams.items():
            stream.end(responses[index].body)

    def fail(self, error: Exception) -> None:
        for stream in self._streams.values():
            stream.fail(error)
