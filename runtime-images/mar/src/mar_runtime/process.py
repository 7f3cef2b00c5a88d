"""One worker process, seen from the server: started, asked, watched, ended."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import os
import signal
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from typing import cast

import msgspec
import psutil

from mar_runtime.spec import HandlerNotLoaded, HandlerSpec
from mar_runtime.worker import Loaded, memory_bytes, run
from transformer_sdk.handler.wire import HEAD, Kind, Unframer

log = logging.getLogger(__name__)

# The end of a process and the end of its connection follow each other within this time, in any order.
_END_S = 1.0
# A killed process is gone within this time, unless the kernel waits for a device.
_KILLED_S = 5.0


def workers_context(*, cuda: bool) -> ForkServerContext:
    """Where workers are forked from: a process that has imported what all of them need.

    With CUDA only torch is imported there: it does not survive a fork, and TorchServe's handlers touch it on import.
    """
    context = multiprocessing.get_context("forkserver")
    touching_cuda = [] if cuda else ["mar_runtime.handling", "ts.torch_handler.base_handler"]
    context.set_forkserver_preload(["mar_runtime.reaping", "torch", *touching_cuda])
    return context


# Takes the frame of a piece.
OnPiece = Callable[[bytes], object]


class WorkerDied(Exception):
    """The process ended while it was asked, or before it was ready; the text says how."""


class CannotStart(Exception):
    """There is no process: files, processes or memory are short. The text says which."""


class NeverStarted(Exception):
    """The process ended before it came to this frame: another may have it."""


class WorkerProcess:
    """Serves one batch after another. `gone` is done when the process is, and tells how it ended."""

    def __init__(self, process: BaseProcess, pipe: _Pipe, gpu: int | None) -> None:
        loop = asyncio.get_running_loop()
        self.gpu = gpu
        self.gone: asyncio.Future[str] = loop.create_future()
        self.served = 0
        self._process = process
        self._pipe = pipe
        self._exited: asyncio.Future[None] = loop.create_future()
        self._is_orphan = False
        loop.add_reader(process.sentinel, self._on_end)
        self._watching = loop.create_task(self._watch())

    @classmethod
    async def start(cls, context: ForkServerContext, spec: HandlerSpec, timeout_s: float) -> WorkerProcess:
        """Returns when the handler is loaded; raises HandlerNotLoaded, CannotStart, WorkerDied and TimeoutError."""
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            raise CannotStart(f"{error!r}") from error
        # No daemon: those must not have children, and handlers have, for loading data in parallel.
        process = context.Process(target=run, args=(spec, theirs), daemon=False, name=f"worker of {spec.model}")
        starting = asyncio.ensure_future(asyncio.to_thread(process.start))
        # Also where nobody waits for it any more: a process without a connection ends by itself.
        starting.add_done_callback(lambda _: theirs.close())
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            ours.close()
            raise
        except (OSError, EOFError) as error:
            ours.close()
            raise CannotStart(f"{error!r}") from error
        ours.setblocking(False)
        _, pipe = await asyncio.get_running_loop().create_connection(_Pipe, sock=ours)
        worker = cls(process, pipe, spec.gpu)
        try:
            loaded = msgspec.msgpack.decode(await asyncio.wait_for(pipe.first, timeout_s), type=Loaded)
        except BaseException:
            await worker.end()
            raise
        if loaded.failure is not None:
            await worker.end()
            raise HandlerNotLoaded(loaded.failure)
        return worker

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid or 0

    @property
    def pending(self) -> int:
        """How many frames it has not answered yet."""
        return self._pipe.pending

    @property
    def is_ending(self) -> bool:
        """It takes no frame any more, though what it sent before may still be read."""
        return self._exited.done() or self._pipe.lost.done()

    async def ask(self, frame: bytes, timeout_s: float, on_piece: OnPiece) -> bytes:
        """The answer to a frame; raises WorkerDied, NeverStarted, and TimeoutError when its own run takes too long.

        Pieces of the answer go to `on_piece`; with each its time begins anew.
        """
        if self.is_ending:
            raise NeverStarted
        self.served += 1
        return await self._pipe.ask(frame, timeout_s, on_piece)

    def memory_bytes(self) -> int:
        """What the process holds in memory now."""
        return memory_bytes(self.pid)

    def private_bytes(self) -> int:
        """What of it another process would not share; 0 when it is gone."""
        try:
            held: int = psutil.Process(self.pid).memory_full_info().uss
        except psutil.Error:
            return 0
        return held

    def retire(self) -> None:
        """Let it end by itself: it does when its connection is closed."""
        self._pipe.close()

    def kill(self) -> None:
        """End it now, whatever it does, and what its handler started."""
        for end in (os.killpg, os.kill):  # just forked, it has no group of its own yet
            with contextlib.suppress(ProcessLookupError, PermissionError):
                end(self.pid, signal.SIGKILL)
                return

    async def end(self) -> None:
        """Kill it; returns when it is gone and its connection is closed."""
        self.kill()
        await asyncio.wait([self.gone], timeout=_KILLED_S)

    def _on_end(self) -> None:
        """The process that this one was forked from tells that it has ended, or has itself been ended."""
        asyncio.get_running_loop().remove_reader(self._process.sentinel)
        if _runs(self.pid):
            log.warning("worker %d goes on: the process that it was forked from has died", self.pid)
            self._is_orphan = True
        else:
            self._exited.set_result(None)

    async def _watch(self) -> None:
        """Until the process has ended; what it sent before that is read to the end."""
        exited, lost = self._exited, self._pipe.lost
        await asyncio.wait((exited, lost), return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait((exited, lost), timeout=_END_S)
        how = self._how_it_ended()
        self.kill()
        self._pipe.close()
        self._pipe.fail(WorkerDied(how))
        if self._is_orphan:  # this process' own to collect, where it is a container's first
            with contextlib.suppress(ChildProcessError):
                await asyncio.to_thread(os.waitpid, self.pid, 0)
        self.gone.set_result(how)

    def _how_it_ended(self) -> str:
        self._process.join(0)
        code = None if self._is_orphan else self._process.exitcode
        if code is None:
            return "it closed its connection"
        if code < 0:
            hint = "; if that was for memory, raise the container's memory limit" if -code == signal.SIGKILL else ""
            return f"it was ended by {signal.Signals(-code).name}{hint}"
        words = f": {self._pipe.last_words}" if self._pipe.last_words else ""
        return f"it exited with code {code}{words}"


@dataclass(slots=True, eq=False)
class _Asked:
    """A frame on the other side; its time runs from when those before it are answered."""

    answer: asyncio.Future[bytes]
    timeout_s: float
    on_piece: OnPiece


class _Pipe(asyncio.Protocol):
    """Frames, each behind its head, over a socket, answered in the order in which they were sent.

    `lost` is done when the connection is. The other side sends its `first` frame unasked.
    """

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.lost: asyncio.Future[None] = loop.create_future()
        self.first: asyncio.Future[bytes] = loop.create_future()
        self.last_words = ""
        self._received = Unframer()
        self._asked: deque[_Asked] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None

    @property
    def pending(self) -> int:
        """Frames without an answer."""
        return len(self._asked)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def ask(self, frame: bytes, timeout_s: float, on_piece: OnPiece) -> asyncio.Future[bytes]:
        """A frame for a lost connection goes nowhere: `fail` tells who waits for the answer."""
        if self._transport and not self.lost.done():
            self._transport.writelines((HEAD.pack(Kind.WHOLE, len(frame)), frame))
        asked = _Asked(asyncio.get_running_loop().create_future(), timeout_s, on_piece)
        self._asked.append(asked)
        if len(self._asked) == 1:
            self._start_clock()
        return asked.answer

    def fail(self, error: WorkerDied) -> None:
        """Of all that was asked, only the first can have been the process' end."""
        self._stop_clock()
        _settle(self.first, error)
        for index, asked in enumerate(self._asked):
            _settle(asked.answer, NeverStarted() if index else error)
        self._asked.clear()

    def data_received(self, data: bytes) -> None:
        for kind, frame in self._received.feed(data):
            if kind == Kind.WHOLE:
                self._answer(frame)
            elif kind == Kind.PIECE:
                self._pass_on(frame)
            else:
                self.last_words = frame.decode("utf-8", "replace")

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self.lost.set_result(None)

    def close(self) -> None:
        if self._transport:
            self._transport.close()

    def _answer(self, frame: bytes) -> None:
        if not self.first.done():
            self.first.set_result(frame)
        elif self._asked:
            self._stop_clock()
            answer = self._asked.popleft().answer
            if self._asked:
                self._start_clock()
            if not answer.done():
                answer.set_result(frame)

    def _pass_on(self, piece: bytes) -> None:
        if self._asked:
            self._stop_clock()
            self._start_clock()
            self._asked[0].on_piece(piece)

    def _start_clock(self) -> None:
        asked = self._asked[0]
        # asyncio.timeout costs more than the way to the worker and back.
        self._timer = asyncio.get_running_loop().call_later(asked.timeout_s, _settle, asked.answer, TimeoutError())

    def _stop_clock(self) -> None:
        if self._timer:
            self._timer.cancel()


def _settle(waiting: asyncio.Future[bytes], failure: Exception) -> None:
    if not waiting.done():
        waiting.set_exception(failure)


def _runs(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
