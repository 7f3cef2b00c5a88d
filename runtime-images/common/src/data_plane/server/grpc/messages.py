"""Limits how many messages of gRPC calls arrive at a time, as gRPC does not report how much of a message has arrived.

All methods have a request stream, although most clients send one message: such a method chooses when to read. HTTP/2's
flow control keeps what is not read at the client.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc

from data_plane.errors import ClientTooSlow, InvalidRequest, NotReady
from data_plane.limits import (
    GRPC_COPIES,
    HURRIED_MESSAGE_TIMEOUT,
    MAX_GRPC_READERS,
    MAX_GRPC_WAITING,
    MIN_GRPC_READERS,
    TRANSFER_TIMEOUT,
)
from data_plane.server.budget import ByteBudget, Held

if TYPE_CHECKING:
    _Context = grpc.aio.ServicerContext[bytes, bytes]


def readers_within(budget: ByteBudget, max_message_size: int) -> int:
    """Return how many calls may read at a time, so that half of the budget holds messages of the largest size."""
    fitting = budget.limit // 2 // (max_message_size * GRPC_COPIES)
    return min(MAX_GRPC_READERS, max(MIN_GRPC_READERS, fitting))


class MessageReceiver:
    """Reads `readers` messages at a time. They count in `budget`.

    A message must arrive within `timeout_s` seconds, by default TRANSFER_TIMEOUT; sooner while others wait.
    """

    def __init__(self, readers: int, budget: ByteBudget | None = None, timeout_s: float | None = None) -> None:
        self._budget = budget
        self._timeout_s = TRANSFER_TIMEOUT if timeout_s is None else timeout_s
        self._turns = asyncio.Semaphore(readers)
        self._waiting = 0
        # Those with their whole time, and since when; the first is the oldest.
        self._reading: dict[asyncio.Future[Any], float] = {}

    async def read(self, context: _Context, held: Held) -> bytes:
        """Return the call's message, counted in `held`.

        Raises BuffersFull, ClientTooSlow, InvalidRequest and NotReady.
        """
        if self._budget:
            await self._budget.make_room(1)
        if self._turns.locked():
            await self._wait()
        else:
            await self._turns.acquire()
        try:
            message = await self._read(context)
        finally:
            self._turns.release()
        if not isinstance(message, bytes):
            raise InvalidRequest("The call ended without a message, or with one that is over the limit.")
        if self._budget:
            await held.take(len(message) * GRPC_COPIES)
        return message

    async def _wait(self) -> None:
        """Wait for a turn to read. The message that has been read for longest gets less time to arrive."""
        if self._waiting >= MAX_GRPC_WAITING:
            raise NotReady(f"{self._waiting} calls already wait until their message is read; send it again later.")
        if self._reading:
            oldest = next(iter(self._reading))
            since = self._reading.pop(oldest)
            asyncio.get_running_loop().call_at(since + HURRIED_MESSAGE_TIMEOUT, oldest.cancel)
        self._waiting += 1
        try:
            await self._turns.acquire()
        finally:
            self._waiting -= 1

    async def _read(self, context: _Context) -> Any:
        reading: asyncio.Future[Any] = asyncio.ensure_future(context.read())
        self._reading[reading] = asyncio.get_running_loop().time()
        allowed_s = self._timeout_s
        try:
            await asyncio.wait([reading], timeout=allowed_s)
            if reading.cancelled() and reading not in self._reading:
                allowed_s = HURRIED_MESSAGE_TIMEOUT
            elif reading.done():
                return reading.result()
        finally:
            self._reading.pop(reading, None)
            reading.cancel()
        raise ClientTooSlow(f"The message did not come within {allowed_s:g} s; send it without a pause.")
