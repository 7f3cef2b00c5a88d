"""One worker process, seen from the server: started, asked, watched, ended."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import socket
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from typing import cast

import msgspec

from mar_runtime.worker import HEAD, HandlerNotLoaded, HandlerSpec, Loaded, memory_bytes, run

# The end of a process and the end of its connection follow each other within this time, in any order.
_END_S = 1.0


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
    """Serves one batch at a time. `gone` is done when the process is, and tells how it ended."""

    def __init__(self, process: BaseProcess, pipe: _Pipe, gpu: int | None) -> None:
        loop = asyncio.get_running_loop()
        self.gpu = gpu
        self.gone: asyncio.Future[str] = loop.create_future()
        self.served = 0
        self._process = process
        self._pipe = pipe
        self._watching = loop.create_task(self._watch())

    @classmethod
    async def start(cls, context: ForkServerContext, spec: HandlerSpec, timeout_s: float) -> WorkerProcess:
        """Returns when the handler is loaded; raises HandlerNotLoaded, WorkerDied and TimeoutError."""
        ours, theirs = socket.socketpair()
        # No daemon: those must not have children, and handlers have, for loading data in parallel.
        process = context.Process(target=run, args=(spec, theirs), daemon=False, name=f"worker of {spec.model}")
        try:
            await asyncio.to_thread(process.start)
        except (OSError, EOFError) as error:
            ours.close()
            raise WorkerDied(f"it could not be started: {error!r}") from error
        theirs.close()
        ours.setblocking(False)
        _, pipe = await asyncio.get_running_loop().create_connection(_Pipe, sock=ours)
        worker = cls(process, pipe, spec.gpu)
        try:
            loaded = msgspec.msgpack.decode(await asyncio.wait_for(pipe.first, timeout_s), type=Loaded)
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

    async def ask(self, frame: bytes, timeout_s: float) -> bytes:
        """The answer to a frame; raises WorkerDied and TimeoutError."""
        if self.gone.done():
            raise WorkerDied(self.gone.result())
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

    def retire(self) -> None:
        """Let it end by itself: it does when its connection is closed."""
        self._pipe.close()

    def kill(self) -> None:
        """End it now, whatever it does, and what its handler started."""
        for end in (os.killpg, os.kill):  # just forked, it has no group of its own yet
            with contextlib.suppress(ProcessLookupError, PermissionError):
                end(self.pid, signal.SIGKILL)
                return

    async def _watch(self) -> None:
        """Until the process has ended; what it sent before that is read to the end."""
        exited, lost = _readable_once(self._process.sentinel), self._pipe.lost
        await asyncio.wait((exited, lost), return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait((exited, lost), timeout=_END_S)
        how = self._how_it_ended()
        self.kill()
        self._pipe.close()
        self._pipe.fail(WorkerDied(how))
        self.gone.set_result(how)

    def _how_it_ended(self) -> str:
        self._process.join(0)
        code = self._process.exitcode
        if code is None:
            return "it closed its connection"
        if code < 0:
            hint = "; if that was for memory, raise the container's memory limit" if -code == signal.SIGKILL else ""
            return f"it was ended by {signal.Signals(-code).name}{hint}"
        words = f": {self._pipe.last_words}" if self._pipe.last_words else ""
        return f"it exited with code {code}{words}"


class _Pipe(asyncio.Protocol):
    """Frames, each behind its head, over a socket. `lost` is done when the connection is.

    The other side sends its `first` frame unasked, be it before anybody waits for it.
    """

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.lost: asyncio.Future[None] = loop.create_future()
        self.first: asyncio.Future[bytes] = loop.create_future()
        self.last_words = ""
        self._buffer = bytearray()
        self._waiting = self.first
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def send(self, frame: bytes) -> None:
        """A frame for a lost connection goes nowhere: `fail` tells who waits for the answer."""
        if self._transport and not self.lost.done():
            self._transport.writelines((HEAD.pack(False, len(frame)), frame))

    def answer(self) -> asyncio.Future[bytes]:
        self._waiting = asyncio.get_running_loop().create_future()
        return self._waiting

    def fail(self, error: WorkerDied) -> None:
        if not self._waiting.done():
            self._waiting.set_exception(error)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= HEAD.size:
            is_last, length = HEAD.unpack_from(self._buffer)
            end = HEAD.size + length
            if len(self._buffer) < end:
                return
            frame = bytes(memoryview(self._buffer)[HEAD.size : end])
            del self._buffer[:end]
            if is_last:
                self.last_words = frame.decode("utf-8", "replace")
            elif not self._waiting.done():
                self._waiting.set_result(frame)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self.lost.set_result(None)

    def close(self) -> None:
        if self._transport:
            self._transport.close()


def _time_out(answer: asyncio.Future[bytes]) -> None:
    if not answer.done():
        answer.set_exception(TimeoutError())


def _readable_once(descriptor: int) -> asyncio.Future[None]:
    """Done when there is something to read."""
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        loop.remove_reader(descriptor)
        if not readable.done():
            readable.set_result(None)

    loop.add_reader(descriptor, settle)
    return readable
