"""The TorchServe process: forwards its log, notices its death at once, and ends it in bounded time."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import re
import signal
import sys
import time
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Any, Self, cast

from torchserve_adapter.errors import TorchServeDied
from torchserve_adapter.launch import Launch
from torchserve_adapter.limits import MAX_LOG_LINE
from torchserve_compat.server.errors import MORE_MEMORY

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PR_SET_CHILD_SUBREAPER = 36
_REAP_S = 1.0
_KEPT_PROBLEMS = 3
_STOP_S = 5
_CUT = " …".encode()
# A line of TorchServe's own log (`launch` has the layout). What a handler prints is the message of a line whose thread
# ends in "-stdout" or "-stderr"; it has no line of its own, as TorchServe escapes line breaks in messages.
_LOGGED = re.compile(r"\d{4}-\d\d-\d\d \S+ (?P<level>\w+) +torchserve \[(?P<thread>.*?)\] (?P<message>.*)")
_WORKER = re.compile(r"W-(?P<worker>\d+)-(?P<version>.+)")
# Logged by the thread of a worker that died, "[W-9000-bert_1.0] Retry worker: 9000 in 1 seconds."
_DIED = "Retry worker: "
# Logged before that; with batches of sequences, TorchServe logs only this line and does not retry.
_LOST = "Auto recovery start timestamp: "
# Logged before both, if TorchServe ended the worker because it did not respond in time, to a request or while loading.
_LATE = "Number or consecutive unsuccessful inference "
# Logged at each start as a warning, though nothing is wrong: TorchServe is on loopback only.
_HARMLESS = "Your torchserve instance can access any URL"
_UNLOGGED_PROBLEM = re.compile(r"Exception|Error|^ERROR: |^Invalid configuration")


class WorkerDeaths:
    """How often a worker of each version died in a row, without a response in between.

    Deaths are counted for each worker, because all workers of a model may die at once from one cause.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._counted_at: dict[str, float] = {}
        self._lost: set[str] = set()
        self._late: dict[str, bool] = {}  # whether the last worker that died was too late
        self._late_threads: set[str] = set()
        self.news = asyncio.Event()

    def feed(self, line: str) -> None:
        """Count a death that a line of TorchServe's log reports."""
        if not (logged := _LOGGED.match(line)) or not (thread := _WORKER.fullmatch(logged["thread"])):
            return
        if logged["message"].startswith(_LATE):
            self._late_threads.add(thread[0])
        elif logged["message"].startswith(_DIED):
            self._counts[thread["version"]][thread["worker"]] += 1
            self._counted_at[thread["version"]] = self._clock()
            self._late[thread["version"]] = thread[0] in self._late_threads
            self._late_threads.discard(thread[0])
            self.news.set()
        elif logged["message"].startswith(_LOST):
            self._lost.add(thread["version"])
            self._late[thread["version"]] = thread[0] in self._late_threads
            self.news.set()

    def count(self, model: str, version: str) -> int:
        """Return the deaths since the last response, of the worker that died most often."""
        return max(self._counts[f"{model}_{version}"].values(), default=0)

    def counted_at(self, model: str, version: str) -> float:
        """Return when the last death was counted, in seconds since the epoch; 0 if there was none."""
        return self._counted_at.get(f"{model}_{version}", 0.0)

    def has_lost(self, model: str, version: str) -> bool:
        """Return whether a worker was ever lost, even if another replaced it."""
        return f"{model}_{version}" in self._lost

    def was_late(self, model: str, version: str) -> bool:
        """Return whether the worker that died last was ended because it did not respond in time."""
        return self._late.get(f"{model}_{version}", False)

    def forget(self, model: str, version: str) -> None:
        """Forget all deaths, which an earlier model of this name had."""
        self.reset(model, version)
        self._lost.discard(f"{model}_{version}")
        self._late.pop(f"{model}_{version}", None)
        self._counted_at.pop(f"{model}_{version}", None)

    def reset(self, model: str, version: str) -> None:
        """Reset the count after a response."""
        self._counts.pop(f"{model}_{version}", None)


class TorchServe:
    """Context manager: starts the process, and ends it with all its workers."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._problems: deque[str] = deque(maxlen=_KEPT_PROBLEMS)
        self.deaths = WorkerDeaths()

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            *self._launch.command,
            cwd=self._launch.work_dir,
            env=dict(self._launch.environment),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            # A group of its own: Ctrl-C in a terminal reaches the adapter alone, and the workers end with their parent.
            start_new_session=True,
            preexec_fn=_die_with_parent(),
        )
        self._stdout = cast(asyncio.StreamReader, self._process.stdout)  # not None: it is a pipe
        self._log = asyncio.create_task(self._forward_log())
        self._reaping = asyncio.create_task(_reap_orphans(self._process.pid))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Terminate the process, and kill it if it does not stop."""
        self._reaping.cancel()
        if self._process.returncode is None:
            self._process.terminate()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), _STOP_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        await self._log

    async def died(self) -> None:
        """Never return; raises TorchServeDied when the process has ended, or what its log cannot be passed on for."""
        ended = asyncio.ensure_future(self._process.wait())
        waiting: set[asyncio.Future[Any]] = {ended, self._log, self._reaping}
        try:
            while ended in waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            code = ended.result()
        finally:
            ended.cancel()
        await asyncio.wait([self._log], timeout=1)
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        if code == -signal.SIGKILL:
            how += f" (if that was for memory, {MORE_MEMORY})"
        raise TorchServeDied(f"TorchServe {how}. {self.last_problems()}")

    def last_problems(self) -> str:
        """Return the last problems in its log."""
        said = " | ".join(self._problems)
        return f"Last problems in its log: {said}" if said else "Its log names no problem."

    async def _forward_log(self) -> None:
        async for raw in lines_of(self._stdout):
            line = raw.decode("utf-8", "replace").rstrip()
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
            if problem := _problem_in(line):
                self._problems.append(problem)
            self.deaths.feed(line)


async def lines_of(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield the lines of a stream, of each the first MAX_LOG_LINE bytes: a handler may print what it was sent."""
    line = b""
    while chunk := await stream.read(MAX_LOG_LINE):
        head, *others = chunk.split(b"\n")
        line = _cut(line + head)
        for other in others:
            yield line
            line = other
    if line:
        yield line


def _cut(line: bytes) -> bytes:
    return line if len(line) <= MAX_LOG_LINE else line[:MAX_LOG_LINE] + _CUT


def _die_with_parent() -> Callable[[], None] | None:
    """Return a function for the child that makes the kernel kill it when the adapter is killed. Linux only.

    The kernel sends the signal when the thread that started the child ends: the main thread, with the event loop.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl  # looked up before the fork

    def ask_kernel() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    return ask_kernel


async def _reap_orphans(torchserve: int) -> None:
    """Reap processes that handlers started and their workers left behind. Linux only.

    In a container they become children of this process anyway, because it is the first one. Zombies would accumulate up
    to the limit of processes.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    while True:
        await asyncio.sleep(_REAP_S)
        _reap_ended(torchserve)


def _reap_ended(torchserve: int) -> None:
    """Reap all ended processes except TorchServe itself, which the event loop reaps."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and ended.si_pid != torchserve:
            os.waitpid(ended.si_pid, 0)


def _problem_in(line: str) -> str | None:
    if logged := _LOGGED.match(line):
        is_problem = logged["level"] in ("WARN", "ERROR") and not logged["message"].startswith(_HARMLESS)
        return logged["message"] if is_problem else None
    return line.strip() if _UNLOGGED_PROBLEM.search(line) else None
