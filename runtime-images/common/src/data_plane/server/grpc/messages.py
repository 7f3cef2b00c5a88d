"""Limits how many messages of gRPC calls arrive at a time, as gRPC does not report how much of a message has arrived.

A few calls run as methods with one request message, which gRPC reads for them. While so many messages are arriving,
further calls run as methods with a request stream, although their clients send one message: such a method chooses when
to read, which costs a little more. HTTP/2's flow control keeps what is not read at the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import grpc

from data_plane.errors import ClientTooSlow, InvalidRequest, NotReady
from data_plane.limits import (
    GRPC_COPIES,
    HURRIED_MESSAGE_TIMEOUT,
    MAX_GRPC_ARRIVING,
    MAX_GRPC_READERS,
    MAX_GRPC_WAITING,
    MIN_GRPC_READERS,
    TRANSFER_TIMEOUT,
)
from data_plane.server.budget import ByteBudget, Held

if TYPE_CHECKING:
    _Context = grpc.aio.ServicerContext[bytes, bytes]

_T = TypeVar("_T")


def readers_within(budget: ByteBudget, max_message_size: int) -> int:
    """Return how many calls may read at a time, so that half of the budget holds messages of the largest size."""
    fitting = budget.limit // 2 // (max_message_size * GRPC_COPIES)
    return min(MAX_GRPC_READERS, max(MIN_GRPC_READERS, fitting))


class Arrival:
    """A message that gRPC reads. It counts as arriving until `end` is called or its call is deleted."""

    __slots__ = ("_receiver",)

    def __init__(self, receiver: MessageReceiver) -> None:
        self._receiver: MessageReceiver | None = receiver
        receiver.arriving += 1

    def end(self) -> None:
        """Record that the message has arrived."""
        if self._receiver:
            self._receiver.arriving -= 1
            self._receiver = None

    __del__ = end


class MessageReceiver:
    """Reads `readers` messages at a time, beside a few that gRPC reads. They count in `budget`.

    A message must arrive within `timeout_s` seconds, by default TRANSFER_TIMEOUT; sooner while others wait.
    """

    def __init__(self, readers: int, budget: ByteBudget | None = None, timeout_s: float | None = None) -> None:
        self.arriving = 0
        self._budget = budget
        self._timeout_s = TRANSFER_TIMEOUT if timeout_s is None else timeout_s
        self._turns = asyncio.Semaphore(readers)
        self._waiting = 0
        self._reading: dict[_Reading, None] = {}  # those with their whole time; the first is the oldest

    def arrival(self) -> Arrival | None:
        """Return the arrival of a new call's message, or None if gRPC may not read it now."""
        is_full = self._budget is not None and self._budget.held >= self._budget.limit
        return None if is_full or self.arriving >= MAX_GRPC_ARRIVING else Arrival(self)

    async def hold(self, message: bytes, held: Held) -> None:
        """Count a message that has arrived; raises BuffersFull."""
        if self._budget:
            await held.take(len(message) * GRPC_COPIES)

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
        await self.hold(message, held)
        return message

    async def _wait(self) -> None:
        """Wait for a turn to read. The message that has been read for longest gets less time to arrive."""
        if self._waiting >= MAX_GRPC_WAITING:
            raise NotReady(f"{self._waiting} calls already wait until their message is read; send it again later.")
        if self._reading:
            oldest = next(iter(self._reading))
            del self._reading[oldest]
            oldest.shorten()
        self._waiting += 1
        try:
            await self._turns.acquire()
        finally:
            self._waiting -= 1

    async def _read(self, context: _Context) -> bytes | object:
        reading = _Reading(self._timeout_s)
        self._reading[reading] = None
        try:
            return await reading.result(context.read())
        finally:
            self._reading.pop(reading, None)


class _Reading:
    """A message that is arriving, read by the task that creates this object."""

    def __init__(self, allowed_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._since = self._loop.time()
        self._allowed_s = allowed_s
        self._timer = self._loop.call_at(self._since + self._allowed_s, self._give_up)
        self._is_given_up = False

    async def result(self, read: Coroutine[Any, Any, _T]) -> _T:
        """Return what is read; raises ClientTooSlow."""
        try:
            return await read
        except asyncio.CancelledError:
            if not self._is_given_up:
                raise
            getattr(self._task, "uncancel", int)()  # Python 3.11 and later count
            text = f"The message did not come within {self._allowed_s:g} s; send it without a pause."
            raise ClientTooSlow(text) from None
        finally:
            self._timer.cancel()

    def shorten(self) -> None:
        """Shorten the time for the message, as others wait."""
        self._allowed_s = HURRIED_MESSAGE_TIMEOUT
        self._timer.cancel()
        self._timer = self._loop.call_at(self._since + self._allowed_s, self._give_up)

    def _give_up(self) -> None:
        self._is_given_up = True
        if self._task:
            self._task.cancel()
