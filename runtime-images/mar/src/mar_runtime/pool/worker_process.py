"""One worker process, seen from the server: started, asked, watched, ended."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import os
import signal
import socket
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess

import msgspec
import psutil

from mar_runtime.pool.pipe import NeverStarted, OnPiece, Pipe, WorkerDied
from mar_runtime.worker.main import Loaded, memory_bytes, run
from mar_runtime.worker.spec import HandlerNotLoaded, HandlerSpec

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
    touching_cuda = [] if cuda else ["mar_runtime.worker.handler", "ts.torch_handler.base_handler"]
    context.set_forkserver_preload(["mar_runtime.worker.reaping", "torch", *touching_cuda])
    return context


class CannotStart(Exception):
    """There is no process: files, processes or memory are short. The text says which."""


class WorkerProcess:
    """Serves one batch after another. `gone` is done when the process is, and tells how it ended."""

    def __init__(self, process: BaseProcess, pipe: Pipe, gpu: int | None) -> None:
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
        _, pipe = await asyncio.get_running_loop().create_connection(lambda: Pipe(at_once=spec.continuous), sock=ours)
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
        """The response to a frame; raises WorkerDied, NeverStarted, and TimeoutError when its own run takes too long.

        Pieces of the response go to `on_piece`; with each its time begins anew.
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


def _runs(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
