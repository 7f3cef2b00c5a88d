"""The server's end of the connection with a worker process: batches go out, responses and pieces of them come back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from data_plane.errors import ClientGone
from torchserve_compat.wire import HEAD, Kind, Unframer

# Takes the frame of a piece; False where nobody takes more of its response.
OnPiece = Callable[[bytes], bool]


class WorkerDied(Exception):
    """The process ended while it was asked, or before it was ready; the text says how."""


class NeverStarted(Exception):
    """The process ended before it came to this frame: another may have it."""


_NUMBERS = 1 << 32  # as many as a head can hold


@dataclass(slots=True, eq=False)
class _Asked:
    """A frame on the other side."""

    response: asyncio.Future[bytes]
    timeout_s: float
    on_piece: OnPiece


class Pipe(asyncio.Protocol):
    """Frames that are answered one after the other; or, `at_once`, in any order, as the worker has all of them in hand.

    A frame's time runs from when those before it are answered, and anew with each piece of its response. At once, it is
    for the worker to say anything.
    """

    def __init__(self, *, at_once: bool = False) -> None:
        loop = asyncio.get_running_loop()
        self.first: asyncio.Future[bytes] = loop.create_future()
        self.lost: asyncio.Future[None] = loop.create_future()
        self.last_words = ""
        self._at_once = at_once
        self._received = Unframer()
        self._next = 0
        self._asked: dict[int, _Asked] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None

    @property
    def pending(self) -> int:
        """Frames without a response."""
        return len(self._asked)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def ask(self, frame: bytes, timeout_s: float, on_piece: OnPiece) -> asyncio.Future[bytes]:
        """The response. A frame for a lost connection goes nowhere: `fail` tells who waits for it.

        At once, a request leaves the worker's batch when its response is cancelled, and when nobody takes its pieces:
        then it is ClientGone.
        """
        number, self._next = self._next, (self._next + 1) % _NUMBERS
        self._write(Kind.WHOLE, number, frame)
        asked = _Asked(asyncio.get_running_loop().create_future(), timeout_s, on_piece)
        self._asked[number] = asked
        if self._at_once:
            asked.response.add_done_callback(lambda response: self._leave(number) if response.cancelled() else None)
        if len(self._asked) == 1:
            self._start_clock()
        return asked.response

    def fail(self, error: WorkerDied) -> None:
        """Of what was asked, only what the process had in hand can have been its end."""
        self._stop_clock()
        _settle(self.first, error)
        in_hand = self._in_hand()
        for asked in self._asked.values():
            _settle(asked.response, error if asked in in_hand else NeverStarted())
        self._asked.clear()

    def data_received(self, data: bytes) -> None:
        for kind, number, frame in self._received.feed(data):
            if kind == Kind.WHOLE:
                self._answer(number, frame)
            elif kind == Kind.PIECE:
                self._pass_on(number, frame)
            else:
                self.last_words = frame.decode("utf-8", "replace")
        if self._timer:
            self._stop_clock()
            self._start_clock()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self.lost.set_result(None)

    def close(self) -> None:
        if self._transport:
            self._transport.close()

    def _write(self, kind: Kind, number: int, frame: bytes = b"") -> None:
        if self._transport and not self.lost.done():
            self._transport.writelines((HEAD.pack(kind, number, len(frame)), frame))

    def _answer(self, number: int, frame: bytes) -> None:
        if not self.first.done():
            self.first.set_result(frame)
        elif (asked := self._asked.pop(number, None)) and not asked.response.done():
            asked.response.set_result(frame)

    def _pass_on(self, number: int, piece: bytes) -> None:
        asked = self._asked.get(number)
        if asked and not asked.on_piece(piece) and self._at_once:
            _settle(asked.response, ClientGone())
            self._leave(number)

    def _leave(self, number: int) -> None:
        if self._asked.pop(number, None):
            self._write(Kind.LEAVE, number)

    def _in_hand(self) -> list[_Asked]:
        """What the process may be at work on now."""
        asked = list(self._asked.values())
        return asked if self._at_once else asked[:1]

    def _start_clock(self) -> None:
        if in_hand := self._in_hand():
            # asyncio.timeout costs more than the way to the worker and back.
            self._timer = asyncio.get_running_loop().call_later(in_hand[0].timeout_s, self._expire)

    def _stop_clock(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        for asked in self._in_hand():
            _settle(asked.response, TimeoutError())


def _settle(waiting: asyncio.Future[bytes], failure: Exception) -> None:
    if not waiting.done():
        waiting.set_exception(failure)
