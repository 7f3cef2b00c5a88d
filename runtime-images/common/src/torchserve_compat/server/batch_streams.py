"""The streamed responses of one batch."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from data_plane.batching.queue import Batch
from data_plane.errors import ClientGone
from torchserve_compat import frames
from torchserve_compat.server.stream import Stream


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

    def end(self, responses: Sequence[frames.HandlerResponse]) -> None:
        """Pass on the last piece of each streamed response."""
        for index, stream in self._streams.items():
            stream.end(responses[index].body)

    def fail(self, error: Exception) -> None:
        """End all streamed responses with an error."""
        for stream in self._streams.values():
            stream.fail(error)
