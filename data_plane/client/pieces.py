"""The body of a response that is passed on while it still arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from data_plane.limits import MAX_WAITING_PIECES


class Silent(Exception):
    """Nothing came for too long."""


class Pieces:
    """An iterator of what has arrived. It ends with the response, and raises what `explain` makes of its breaking off.

    `silence_s` is how long nothing may come. Who stops early calls `aclose`.
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

    # --- the connection's side

    @property
    def begun(self) -> bool:
        """Whether a response comes this way."""
        return self._transport is not None

    def begin(self, transport: asyncio.Transport) -> None:
        """By this transport."""
        self._transport = transport

    def feed(self, piece: bytes) -> None:
        """More of the body."""
        self._waiting += piece
        if self._transport and len(self._waiting) > MAX_WAITING_PIECES:
            self._transport.pause_reading()
        self._wake()

    def end(self, error: Exception | None = None) -> None:
        """There will be no more; with an error it is not all. The first end counts."""
        if not self._ended:
            self._ended, self._error = True, error
            self._read_on()
            self._wake()

    # --- the reader's side

    def __aiter__(self) -> Pieces:
        return self

    async def __anext__(self) -> bytes:
        if not self._waiting and not self._ended:
            await self._more()
        if self._waiting:
            piece, self._waiting = bytes(self._waiting), bytearray()
            self._read_on()
            return piece
        if self._error:
            raise self._explain(self._error)
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """What is still to come is not wanted."""
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

    def _read_on(self) -> None:
        if self._transport and not self._transport.is_closing():
            self._transport.resume_reading()

    def _wake(self) -> None:
        if self._reader and not self._reader.done():
            self._reader.set_result(None)
