"""The server's end of the connection with a worker process: it sends batches, and receives results and pieces."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from data_plane.errors import ClientGone
from torchserve_compat.wire import HEAD, Kind, Unframer

# Takes the frame of a piece; returns False if no more pieces are wanted.
OnPiece = Callable[[bytes], bool]


class WorkerDied(Exception):
    """The process ended while it ran a batch, or before it was ready; the message says how."""


class NeverStarted(Exception):
    """The process ended before it read this frame; another worker may run it."""


_NUMBERS = 1 << 32  # as many as a frame's header can hold


@dataclass(slots=True, eq=False)
class _SentFrame:
    """A frame without a result."""

    result: asyncio.Future[bytes]
    timeout_s: float
    on_piece: OnPiece


class Pipe(asyncio.Protocol):
    """Sends frames; the worker runs them in order, or, `at_once`, all at the same time.

    A frame's timeout starts when the frames before it are done, and restarts with each piece. At once, it restarts with
    anything that the worker sends.
    """

    def __init__(self, *, at_once: bool = False) -> None:
        self._loop = asyncio.get_running_loop()
        self.first: asyncio.Future[bytes] = self._loop.create_future()
        self.lost: asyncio.Future[None] = self._loop.create_future()
        self.exit_message = ""
        self.why_last = ""  # why the process reads no frames any more, if so
        self._at_once = at_once
        self._received = Unframer()
        self._next = 0
        self._sent: dict[int, _SentFrame] = {}
        self._expires = math.inf  # when the frames that run have taken too long, by the loop's clock
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None

    @property
    def pending(self) -> int:
        """Return the number of frames without a result."""
        return len(self._sent)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def send(self, frame: bytes, timeout_s: float, on_piece: OnPiece) -> asyncio.Future[bytes]:
        """Send a frame; the future has its result. If the connection is lost, `fail` sets the exception.

        At once, a request leaves the worker's batch when its future is cancelled, and when no more pieces are wanted:
        then the future raises ClientGone.
        """
        number, self._next = self._next, (self._next + 1) % _NUMBERS
        self._write(Kind.WHOLE, number, frame)
        sent = _SentFrame(self._loop.create_future(), timeout_s, on_piece)
        self._sent[number] = sent
        if self._at_once:
            sent.result.add_done_callback(lambda result: self._leave(number) if result.cancelled() else None)
        if len(self._sent) == 1:
            self._start_clock(timeout_s)
        return sent.result

    def fail(self, error: WorkerDied) -> None:
        """Fail all frames: those that the process was running with `error`, all others with NeverStarted.

        A process that reads no more frames has returned the results of all that it ran.
        """
        self._stop_clock()
        _settle(self.first, error)
        running = [] if self.why_last else self._running()
        for sent in self._sent.values():
            _settle(sent.result, error if sent in running else NeverStarted())
        self._sent.clear()

    def data_received(self, data: bytes) -> None:
        for kind, number, frame in self._received.feed(data):
            if kind == Kind.WHOLE:
                self._receive_result(number, frame)
            elif kind == Kind.PIECE:
                self._receive_piece(number, frame)
            elif kind == Kind.LAST:
                self.why_last = frame.decode()
            else:
                self.exit_message = frame.decode("utf-8", "replace")
        if sent := next(iter(self._sent.values()), None):
            self._start_clock(sent.timeout_s)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self.lost.set_result(None)

    def close(self) -> None:
        if self._transport:
            self._transport.close()

    def _write(self, kind: Kind, number: int, frame: bytes = b"") -> None:
        if self._transport and not self.lost.done():
            self._transport.writelines((HEAD.pack(kind, number, len(frame)), frame))

    def _receive_result(self, number: int, frame: bytes) -> None:
        if not self.first.done():
            self.first.set_result(frame)
        elif (sent := self._sent.pop(number, None)) and not sent.result.done():
            sent.result.set_result(frame)

    def _receive_piece(self, number: int, piece: bytes) -> None:
        sent = self._sent.get(number)
        if sent and not sent.on_piece(piece) and self._at_once:
            _settle(sent.result, ClientGone())
            self._leave(number)

    def _leave(self, number: int) -> None:
        if self._sent.pop(number, None):
            self._write(Kind.LEAVE, number)

    def _running(self) -> list[_SentFrame]:
        """Return the frames that the process may be running."""
        sent = list(self._sent.values())
        return sent if self._at_once else sent[:1]

    def _start_clock(self, timeout_s: float) -> None:
        """Let the frames that run take so long from now on.

        A timer that is due earlier stays, and is set again when it fires: a timer for each frame costs more than
        decoding its result.
        """
        self._expires = self._loop.time() + timeout_s
        if self._timer is None or self._timer.when() > self._expires:
            self._stop_clock()
            self._timer = self._loop.call_at(self._expires, self._check_clock)

    def _stop_clock(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _check_clock(self) -> None:
        self._timer = None
        if not self._sent:
            return
        if self._loop.time() < self._expires:
            self._timer = self._loop.call_at(self._expires, self._check_clock)
            return
        for sent in self._running():
            _settle(sent.result, TimeoutError())


def _settle(waiting: asyncio.Future[bytes], failure: Exception) -> None:
    if not waiting.done():
        waiting.set_exception(failure)
