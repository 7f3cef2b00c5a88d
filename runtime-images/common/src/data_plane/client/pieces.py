"""The body of a streamed response, passed on while it arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from data_plane.limits import MAX_WAITING_PIECES


class Silent(Exception):
    """No data arrived within the limit."""


class Pieces:
    """An async iterator over a response body; raises what `explain` returns for an error of the connection.

    `silence_s` is the longest time without data. A reader that stops early calls `aclose`.
    """

    def __init__(self, silence_s: float, explain: Callable[[Exception], Exception]) -> None:
        self._loop = asyncio.get_running_loop()
        self._silence_s = silence_s
        self._explain = explain
        self._transport: asyncio.Transport | None = None
        self._waiting = bytearray()
        self._error: Exception | None = None
        self._ended = False
        self._reader: asyncio.Future[None] | None = None

    # --- for the connection

    @property
    def begun(self) -> bool:
        """Whether a response is streamed through this object."""
        return self._transport is not None

    def begin(self, transport: asyncio.Transport) -> None:
        """Start streaming from this transport."""
        self._transport = transport

    def feed(self, piece: bytes) -> None:
        """Add a part of the body."""
        self._waiting += piece
        if self._transport and len(self._waiting) > MAX_WAITING_PIECES:
            self._transport.pause_reading()
        self._wake()

    def end(self, error: Exception | None = None) -> None:
        """End the body, with an error if it is incomplete. Later calls have no effect."""
        if not self._ended:
            self._ended, self._error = True, error
            self._resume()
            self._wake()

    # --- for the reader

    def __aiter__(self) -> Pieces:
        return self

    async def __anext__(self) -> bytes:
        if not self._waiting and not self._ended:
            await self._more()
        if self._waiting:
            piece, self._waiting = bytes(self._waiting), bytearray()
            self._resume()
            return piece
        if self._error:
            raise self._explain(self._error)
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Stop reading, and close the connection if the body is incomplete."""
        self._give_up()

    async def _more(self) -> None:
        self._reader = self._loop.create_future()
        timer = self._loop.call_later(self._silence_s, self._give_up)
        try:
            await self._reader
        finally:
            timer.cancel()

    def _give_up(self) -> None:
        if not self._ended and self._transport:
            self.end(Silent())
            self._transport.abort()

    def _resume(self) -> None:
        if self._transport and not self._transport.is_closing():
            self._transport.resume_reading()

    def _wake(self) -> None:
        if self._reader and not self._reader.done():
            self._reader.set_result(None)
