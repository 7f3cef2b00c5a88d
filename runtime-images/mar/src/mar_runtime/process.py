"""One worker process, seen from the server: started, asked, watched, ended."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import socket
from collections.abc import Callable
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from typing import cast

import msgspec

from mar_runtime.worker import LENGTH, HandlerNotLoaded, HandlerSpec, Loaded, memory_bytes, run


def workers_context(*, gpu: bool) -> ForkServerContext:
    """Where workers are forked from: a process that has imported what all of them need.

    With a GPU only torch is imported there: CUDA does not survive a fork, and TorchServe's handlers touch it on import.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["torch"] if gpu else ["torch", "mar_runtime.handling", "ts.torch_handler.base_handler"]
    )
    return context


class WorkerDied(Exception):
    """The process ended while it was asked, or before it was ready; the text says how."""


class WorkerProcess:
    """Serves one batch at a time."""

    def __init__(self, process: BaseProcess, pipe: _Pipe) -> None:
        self._process = process
        self._pipe = pipe
        self.served = 0

    @classmethod
    async def start(cls, context: ForkServerContext, spec: HandlerSpec, timeout_s: float) -> WorkerProcess:
        """Returns when the handler is loaded; raises HandlerNotLoaded, WorkerDied and TimeoutError."""
        ours, theirs = socket.socketpair()
        process = context.Process(target=run, args=(spec, theirs), daemon=True, name=f"worker of {spec.model}")
        await asyncio.to_thread(process.start)
        theirs.close()
        ours.setblocking(False)
        _, pipe = await asyncio.get_running_loop().create_connection(lambda: _Pipe(process), sock=ours)
        worker = cls(process, pipe)
        try:
            loaded = msgspec.msgpack.decode(await asyncio.wait_for(pipe.answer(), timeout_s), type=Loaded)
        except BaseException:
            worker.kill()
            raise
        if loaded.failure is not None:
            worker.kill()
            raise HandlerNotLoaded(loaded.failure)
        return worker

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid or 0

    @property
    def alive(self) -> bool:
        """Whether the connection stands."""
        return not self._pipe.closed

    async def ask(self, frame: bytes, timeout_s: float) -> bytes:
        """The answer to a frame; raises WorkerDied and TimeoutError."""
        self.served += 1
        self._pipe.send(frame)
        answer = self._pipe.answer()
        # asyncio.timeout costs more than the way to the worker and back.
        timer = asyncio.get_running_loop().call_later(timeout_s, _time_out, answer)
        try:
            return await answer
        finally:
            timer.cancel()

    def memory_bytes(self) -> int:
        """What the process holds in memory now."""
        return memory_bytes(self.pid)

    def when_gone(self, callback: Callable[[str], None]) -> None:
        """`callback` is told once how the process ended, unless `retire` or `kill` ended it."""
        self._pipe.when_gone = callback

    def retire(self) -> None:
        """Let it end by itself: it does when its connection is closed."""
        self._pipe.when_gone = None
        self._pipe.close()

    def kill(self) -> None:
        """End it now, whatever it does."""
        self.retire()
        if self._process.pid:
            try:
                os.kill(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                return


class _Pipe(asyncio.Protocol):
    """Frames with their length in front, over a socket."""

    def __init__(self, process: BaseProcess) -> None:
        self._process = process
        self._buffer = bytearray()
        self._waiting: asyncio.Future[bytes] | None = None
        self._transport: asyncio.Transport | None = None
        self.closed = False
        self.when_gone: Callable[[str], None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def send(self, frame: bytes) -> None:
        if self._transport is None or self.closed:
            raise WorkerDied("it is gone")
        self._transport.writelines((LENGTH.pack(len(frame)), frame))

    def answer(self) -> asyncio.Future[bytes]:
        self._waiting = asyncio.get_running_loop().create_future()
        if self.closed:
            self._waiting.set_exception(WorkerDied("it is gone"))
        return self._waiting

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) < LENGTH.size:
            return
        (length,) = LENGTH.unpack_from(self._buffer)
        end = LENGTH.size + length
        if len(self._buffer) < end:
            return
        frame = bytes(memoryview(self._buffer)[LENGTH.size : end])
        del self._buffer[:end]
        if self._waiting and not self._waiting.done():
            self._waiting.set_result(frame)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        if self.closed and self.when_gone is None and self._waiting is None:
            return
        self.closed = True
        how = _how_it_ended(self._process)
        if self._waiting and not self._waiting.done():
            self._waiting.set_exception(WorkerDied(how))
        if self.when_gone:
            self.when_gone(how)

    def close(self) -> None:
        self.closed = True
        if self._transport:
            self._transport.close()


def _time_out(answer: asyncio.Future[bytes]) -> None:
    if not answer.done():
        answer.set_exception(TimeoutError())


def _how_it_ended(process: BaseProcess) -> str:
    """The socket closes a moment before the process is gone."""
    process.join(1)
    code = process.exitcode
    if code is None:
        return "it closed its connection"
    if code < 0:
        hint = "; if that was for memory, raise the container's memory limit" if -code == signal.SIGKILL else ""
        return f"it was ended by {signal.Signals(-code).name}{hint}"
    return f"it exited with code {code}"
