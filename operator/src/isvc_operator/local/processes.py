"""Starts the processes of a run, passes on their output, and stops them. No process and no folder outlives a run."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from isvc_operator.limits import LINE_BYTES, LOG_BYTES, OUTPUT_LINE_BYTES
from isvc_operator.local.container import Process
from isvc_operator.local.errors import RunFailed
from isvc_operator.local.guard import GRACE
from isvc_operator.text import quoted, shortened, visible

_LAST_LINES = 10


@dataclass(frozen=True)
class Running:
    """A started process. ``exited`` returns its exit code after all of its output was passed on."""

    process: Process
    child: asyncio.subprocess.Process
    exited: asyncio.Task[int]
    last_lines: deque[str]

    def failure(self) -> RunFailed:
        """Return why it exited: the text in its termination log, or else its last lines of output."""
        with suppress(OSError), self.process.termination_log.open("rb") as log:
            if reason := log.read(LOG_BYTES).decode(errors="replace").strip():
                return RunFailed(f"{self.process.name} failed ({self._exit()}): {quoted(reason, LOG_BYTES)}")
        printed = "\n  ".join(shortened(line, LINE_BYTES) for line in self.last_lines) or "nothing"
        return RunFailed(f"{self.process.name} failed ({self._exit()}); its last output:\n  {printed}")

    def _exit(self) -> str:
        code = self.exited.result()
        return f"exit code {code}" if code >= 0 else f"killed by signal {-code}"


@dataclass
class Group:
    """The processes of one run, all in the process group ``id``, with a private ``folder``."""

    id: int
    folder: Path
    alive: int
    environment: Mapping[str, str]
    write: Callable[[str], None]
    running: list[Running] = field(default_factory=list)

    async def start(self, process: Process) -> Running:
        """Start a process; each line of its output is passed to ``write`` with the process' name."""
        try:
            child = await asyncio.create_subprocess_exec(
                *process.command,
                env={**self.environment, **process.env},
                cwd=process.working_dir,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                process_group=self.id,
                pass_fds=(self.alive,),
            )
        except OSError as error:
            raise RunFailed(f"{process.name} cannot be started: {process.command[0]}: {error.strerror}") from error
        last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        exited = asyncio.create_task(self._follow(process.name, child, last_lines))
        self.running.append(started := Running(process, child, exited, last_lines))
        return started

    async def stop(self) -> None:
        """Terminate every process, and wait for them no longer than a pod's grace period."""
        for running in self.running:
            with suppress(ProcessLookupError):
                running.child.terminate()
        if self.running:
            await asyncio.wait([running.exited for running in self.running], timeout=GRACE)

    async def _follow(self, name: str, child: asyncio.subprocess.Process, last_lines: deque[str]) -> int:
        printed = cast(asyncio.StreamReader, child.stdout)  # a pipe, as requested above
        copying = asyncio.create_task(self._copy(name, printed, last_lines))
        code = await child.wait()
        # A child that it has left behind may keep the pipe open.
        await asyncio.wait([copying], timeout=1.0)
        copying.cancel()
        return code

    async def _copy(self, name: str, stream: asyncio.StreamReader, last_lines: deque[str]) -> None:
        async for line in lines_of(stream):
            last_lines.append(line)
            self.write(f"{name} | {line}")


@asynccontextmanager
async def process_group(environment: Mapping[str, str], write: Callable[[str], None]) -> AsyncIterator[Group]:
    """Yield a group with a private folder; on exit its processes are stopped and the folder is removed."""
    folder = tempfile.mkdtemp(prefix="isvc-")
    watched, alive = os.pipe()
    guard = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "isvc_operator.local.guard", folder, str(watched),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, process_group=0, pass_fds=(watched,),
    )  # fmt: skip
    os.close(watched)
    group = Group(guard.pid, Path(folder), alive, environment, write)
    try:
        yield group
    finally:
        try:
            await group.stop()
        finally:
            os.close(alive)
            await guard.communicate(b"")  # closes its standard input, and waits until it has cleaned up


async def lines_of(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    """Yield lines with control characters escaped. Unlike with ``readline`` a long line is yielded in several parts.

    The last line may be incomplete.
    """
    rest = b""
    while chunk := await stream.read(OUTPUT_LINE_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) >= OUTPUT_LINE_BYTES:
            lines, rest = [*lines, rest], b""
        for line in lines:
            yield _text(line)
    if rest:
        yield _text(rest)


def _text(line: bytes) -> str:
    return visible(line.decode(errors="replace").rstrip())
