"""The server's side of one worker process: start it, send it batches, watch it, end it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess

import msgspec
import psutil

from mar_runtime.pool.pipe import NeverStarted, OnPiece, Pipe, WorkerDied
from mar_runtime.worker.main import Loaded, run
from mar_runtime.worker.spec import HandlerNotLoaded, HandlerSpec
from torchserve_compat.server.errors import MORE_MEMORY

log = logging.getLogger(__name__)

# A process and its connection end within this time of each other, in any order.
_END_S = 1.0
# So often it is looked whether a process still runs of which nobody tells that it has ended.
_LOOK_S = 1.0
_CRASHED = "; native code crashed, of the handler or of a package that it uses"
_HINTS = {
    signal.SIGKILL: f"; if that was for memory, {MORE_MEMORY}",
    **dict.fromkeys((signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE), _CRASHED),
}
# A killed process is gone within this time, unless the kernel waits for a device.
_KILLED_S = 5.0


class CannotStart(Exception):
    """No process could be started, because files, processes or memory are short; the message says which."""


class WorkerProcess:
    """A process that runs batches. The future `gone` is done when the process has ended, with a description of how."""

    def __init__(self, process: BaseProcess, pipe: Pipe, gpu: int | None) -> None:
        loop = asyncio.get_running_loop()
        self.gpu = gpu
        self.gone: asyncio.Future[str] = loop.create_future()
        self.served = 0
        self.measured_at = 0.0  # when its memory was looked at
        self._process = process
        self._pipe = pipe
        self._exited: asyncio.Future[None] = loop.create_future()
        self._is_orphan = False
        loop.add_reader(process.sentinel, self._on_end)
        self._following: asyncio.Task[None] | None = None
        self._watching = loop.create_task(self._watch())

    @classmethod
    async def start(cls, context: ForkServerContext, spec: HandlerSpec, timeout_s: float) -> WorkerProcess:
        """Start a process; return when its handler is loaded.

        Raises HandlerNotLoaded, CannotStart, WorkerDied and TimeoutError.
        """
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            raise CannotStart(f"{error!r}") from error
        # Not a daemon: daemons must not have children, and handlers may load data in parallel.
        process = context.Process(target=run, args=(spec, theirs), daemon=False, name=f"worker of {spec.model}")
        starting = asyncio.ensure_future(asyncio.to_thread(process.start))
        # Even if the caller is gone: a process without a connection ends by itself.
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
        """Return the process id."""
        return self._process.pid or 0

    @property
    def pending(self) -> int:
        """Return the number of frames without a result."""
        return self._pipe.pending

    @property
    def is_ending(self) -> bool:
        """Return whether the process accepts no more frames; results that it sent before may still arrive.

        It asks the system, too: the events of its end arrive later than a frame may be sent, which would then be lost.
        """
        is_closed = self._pipe.lost.done() or bool(self._pipe.why_last)
        return is_closed or self._exited.done() or not _is_known(self.pid)

    async def send(self, frame: bytes, timeout_s: float, on_piece: OnPiece) -> bytes:
        """Send a frame and return its result; raises WorkerDied, NeverStarted, and TimeoutError if it runs too long.

        Pieces go to `on_piece`; each restarts the timeout.
        """
        if self.is_ending:
            raise NeverStarted
        self.served += 1
        return await self._pipe.send(frame, timeout_s, on_piece)

    def memory_bytes(self) -> int:
        """Return the resident memory of the process in bytes; 0 if it is gone."""
        with contextlib.suppress(psutil.Error):
            return int(psutil.Process(self.pid).memory_info().rss)
        return 0

    def private_bytes(self) -> int:
        """Return the memory that the process does not share, in bytes; 0 if it is gone."""
        with contextlib.suppress(psutil.Error):
            return int(psutil.Process(self.pid).memory_full_info().uss)
        return 0

    def retire(self) -> None:
        """Close the connection, so that the process ends by itself."""
        self._pipe.close()

    def kill(self) -> None:
        """Kill the process and the processes that its handler started."""
        for end in (os.killpg, os.kill):  # a process that was just forked has no group of its own yet
            with contextlib.suppress(ProcessLookupError, PermissionError):
                end(self.pid, signal.SIGKILL)
                return

    async def end(self) -> None:
        """Kill the process; return when it is gone and its connection is closed."""
        self.kill()
        await asyncio.wait([self.gone], timeout=_KILLED_S)

    def _on_end(self) -> None:
        """Handle a sentinel: the process has ended, or the forkserver process has."""
        asyncio.get_running_loop().remove_reader(self._process.sentinel)
        if _runs(self.pid):
            self._is_orphan = True
            self._following = asyncio.get_running_loop().create_task(self._follow())
        else:
            self._exited.set_result(None)

    async def _follow(self) -> None:
        """Look for the end of a process of which nobody tells it."""
        await asyncio.sleep(_LOOK_S)  # in which it ends as well where all of them are killed
        if _runs(self.pid):
            log.warning("worker %d goes on: the process that it was forked from has died", self.pid)
        while _runs(self.pid):  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(_LOOK_S)
        self._exited.set_result(None)

    async def _watch(self) -> None:
        """Wait until the process has ended and everything that it sent has been read."""
        exited, lost = self._exited, self._pipe.lost
        await asyncio.wait((exited, lost), return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait((exited, lost), timeout=_END_S)
        if self._following:
            self._following.cancel()
        how = self._how_it_ended()
        self.kill()
        self._pipe.close()
        self._pipe.fail(WorkerDied(how))
        if self._is_orphan:  # reap it here: as a container's first process, the server is its parent now
            with contextlib.suppress(ChildProcessError):
                await asyncio.to_thread(os.waitpid, self.pid, 0)
        self.gone.set_result(how)

    def _how_it_ended(self) -> str:
        self._process.join(0)
        if self._pipe.why_last:
            return self._pipe.why_last
        code = None if self._is_orphan else self._process.exitcode
        if code is None:
            return "it closed its connection"
        if code < 0:
            ended_by = signal.Signals(-code)
            return f"it was ended by {ended_by.name}{_HINTS.get(ended_by, '')}"
        reason = f": {self._pipe.exit_message}" if self._pipe.exit_message else ""
        return f"it exited with code {code}{reason}; let the handler raise an exception instead"


def _is_known(pid: int) -> bool:
    """Return whether there is a process, or one that has ended and was not waited for; takes a microsecond."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):  # none, or by now one of somebody else
        return False
    return True


def _runs(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
