"""Starts the processes of a run, passes on their output, and stops them. No process and no folder outlives a run."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from isvc.extras import to_install
from isvc.limits import OUTPUT_LINE_BYTES
from isvc.run.clock import now
from isvc.run.container import Process
from isvc.run.errors import RunFailed
from isvc.run.guard import GRACE
from isvc.run.log import Log
from isvc.run.output import Output
from isvc.view.headlines import missing_module
from isvc.view.log_ends import last_state
from isvc_operator.limits import LINE_BYTES, LOG_BYTES
from isvc_operator.text import quoted, shortened, visible

_LAST_LINES = 10
_NO_FILE = re.compile(r".*: can't open file '(.+)': \[Errno 2\] No such file or directory")
_SHORT = "/tmp"  # noqa: S108 - the folder in it is private
_TEMPORARY_BYTES = 32  # of 103, which is what a path of a Unix socket may have on macOS
_PROC = Path("/proc/self")
_ENDED = (b"Z", b"X")  # states of a process in its stat, whose flags the kernel has from before it closes the ports
_EXITING = 0x4
_KILLED = 128  # what a shell and a container runtime add to the number of a signal


@dataclass(frozen=True)
class Running:
    """A started process. ``exited`` returns its exit code after all of its output was passed on."""

    process: Process
    child: asyncio.subprocess.Process
    exited: asyncio.Task[int]
    log: Log

    async def stop(self, grace: float) -> None:
        """Ask it to end; after so many seconds, or if cancelled, it is killed, with what it has started."""
        with suppress(ProcessLookupError):
            self.child.terminate()
        try:
            await asyncio.wait([self.exited], timeout=grace)
        finally:
            if not self.exited.done():
                kill_group(self.child.pid)
                await until_done(self.exited)

    @property
    def is_alive(self) -> bool:
        """Whether it is not exiting, as the system says: the event loop learns of it later."""
        if self.child.returncode is not None:
            return False
        try:
            stat = Path(f"/proc/{self.child.pid}/stat").read_bytes()
        except OSError:  # it has exited, or the system has no /proc
            return not _PROC.exists()
        _, _, fields = stat.rpartition(b")")
        state, *_, flags = fields.split()[:7]
        return state not in _ENDED and not int(flags) & _EXITING

    @property
    def exit_code(self) -> int:
        """The exit code as a container has it: that of a signal is 128 and its number."""
        code = self.exited.result()
        return code if code >= 0 else _KILLED - code

    def message(self) -> str:
        """Return the text in its termination log; empty without one."""
        with suppress(OSError), self.process.termination_log.open("rb") as log:
            return self.process.named(log.read(LOG_BYTES).decode(errors="replace").strip())
        return ""

    def failure(self) -> RunFailed:
        """Return why it exited: the text in its termination log, or else its last lines of output."""
        how = f"{self.process.name} {'failed' if self.exited.result() else 'has ended'} ({self._exit()})"
        last = self.log.last(_LAST_LINES)
        how += self._advice(last)
        if reason := self.message():
            return RunFailed(f"{how}: {quoted(reason, LOG_BYTES)}", how if reason in last else "")
        printed = "\n  ".join(shortened(line, LINE_BYTES) for line in last) or "nothing"
        return RunFailed(f"{how}; its last output:\n  {printed}", how if last else "")

    def _advice(self, printed: Sequence[str]) -> str:
        """Return what to do about a program or a module that this Python has not found; else nothing."""
        program, *arguments = self.process.command
        if program != sys.executable:
            return ""
        if found := next(filter(None, map(_NO_FILE.fullmatch, reversed(printed))), None):
            return f": {elsewhere(Path(found[1]))}"
        own = Path(self.process.working_dir or ".")
        folders = [*((own / word).parent for word in arguments if word.endswith(".py")), own]
        module = next(filter(None, map(missing_module, reversed(printed))), "")
        if not module:
            return ""
        is_program = f"{dict(pairwise(arguments)).get('-m')}.".startswith(f"{module}.")
        where = f"type the command in the folder that has {module}, or " if is_program else ""
        return f": {where}{to_install(module, folders)}"

    def _exit(self) -> str:
        code = self.exited.result()
        return f"exit code {code}" if code >= 0 else f"killed by signal {-code}"


def elsewhere(program: Path) -> str:
    """Return that a program is not where it is looked for, and what to do."""
    return f"there is no {program.name} in {program.parent}; type the command in the folder that has it"


@dataclass
class Group:
    """The processes of one run, with a private ``folder``. Each is a process group that ``guard`` knows."""

    guard: asyncio.subprocess.Process
    folder: Path
    alive: int
    environment: Mapping[str, str]
    output: Output
    running: list[Running] = field(default_factory=list)
    is_hurried: bool = False  # they get no time to end

    def grace(self, seconds: float) -> float:
        """Return how long a process has to end, which asks for so many seconds."""
        return 0.0 if self.is_hurried else seconds

    async def start(self, process: Process, show: Callable[[str], object]) -> Running:
        """Start a process; each line of its output is kept in its log, and shown."""
        process.termination_log.unlink(missing_ok=True)
        # A pipe of our own: asyncio's is waited for by ``child.wait()``, and a process left behind may keep it open.
        printed, output = os.pipe()
        try:
            child = await self._spawn(process, output)
        except RunFailed:
            os.close(printed)
            raise
        finally:
            os.close(output)
        log = Log()

        def take(line: str) -> None:
            line = process.named(line)
            log.append(now(), line)
            show(line)

        exited = asyncio.create_task(self._follow(child, printed, log, take))
        self.running.append(started := Running(process, child, exited, log))
        exited.add_done_callback(lambda _: self.running.remove(started))
        return started

    async def succeeds(self, process: Process, timeout: float) -> bool:
        """Run a command of a container's probe; return whether it exits with 0 in time."""
        child = await self._spawn(process, asyncio.subprocess.DEVNULL)
        try:
            async with asyncio.timeout(timeout):
                return await child.wait() == 0
        except TimeoutError:
            return False
        finally:
            kill_group(child.pid)
            await until_done(asyncio.create_task(child.wait()))
            self._tell_guard(f"-{child.pid}")

    async def stop(self) -> None:
        """Terminate every process, and wait for them no longer than a pod's grace period; if cancelled, kill them."""
        await together(*(running.stop(self.grace(GRACE)) for running in self.running))

    async def _spawn(self, process: Process, output: int) -> asyncio.subprocess.Process:
        try:
            child = await asyncio.create_subprocess_exec(
                *process.command,
                env={**self.environment, **process.env},
                cwd=process.working_dir,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                process_group=0,
                pass_fds=(self.alive,),
            )
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            what = _missing_folder(process) or f"{process.command[0]}: {why}"
            raise RunFailed(f"{process.name} cannot be started: {what}") from error
        self._tell_guard(f"+{child.pid}")
        return child

    def _tell_guard(self, line: str) -> None:
        cast(asyncio.StreamWriter, self.guard.stdin).write(f"{line}\n".encode())

    async def _follow(
        self, child: asyncio.subprocess.Process, printed: int, log: Log, take: Callable[[str], object]
    ) -> int:
        reader = asyncio.StreamReader()
        pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(printed, "rb")
        )
        copying = asyncio.create_task(_copy(reader, take))
        code = await child.wait()
        kill_group(child.pid)  # what it has left behind, as with a container
        # A process that has left the group may keep the pipe open.
        await asyncio.wait([copying], timeout=1.0)
        copying.cancel()
        pipe.close()
        log.end()
        self._tell_guard(f"-{child.pid}")
        return code


async def _copy(stream: asyncio.StreamReader, take: Callable[[str], object]) -> None:
    async for line in lines_of(stream):
        take(line)


async def until_done(task: asyncio.Task[Any]) -> None:
    """Return when a task is done, which is soon: only then is it cancelled itself, however often it was meanwhile."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled:
        raise cancelled


async def together(*work: Awaitable[object]) -> None:
    """Do these at the same time. Each time that it is cancelled, all of them are, and all are waited for.

    Each one begins, also if it is cancelled at once: what is to be ended would stay otherwise.
    """
    all_of_them = asyncio.gather(*work, return_exceptions=True)
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        if not all_of_them.cancel():
            raise
    for result in await all_of_them:
        if isinstance(result, Exception):
            raise result


def _short_folder() -> str | None:
    """Return another folder for temporary files if the usual one is too long for the Unix sockets in it; else None.

    On macOS, that is so for all users. The longest path that is added is that of a socket of Python's forkserver.
    """
    is_long = len(os.fsencode(tempfile.gettempdir())) > _TEMPORARY_BYTES
    return _SHORT if is_long and os.access(_SHORT, os.W_OK | os.X_OK) else None


def _missing_folder(process: Process) -> str:
    """Return what is wrong with the working folder, for which the error names the program; empty if it is there."""
    folder = process.working_dir
    return "" if folder is None or Path(folder).is_dir() else f"its workingDir {folder} is not a folder of this machine"


def kill_group(group: int) -> None:
    """Kill the processes of a group, if there are any."""
    with suppress(ProcessLookupError, PermissionError):  # macOS refuses to signal a group of zombies
        os.killpg(group, signal.SIGKILL)


@asynccontextmanager
async def process_group(environment: Mapping[str, str], output: Output) -> AsyncIterator[Group]:
    """Yield a group with a private folder; on exit its processes are stopped and the folder is removed."""
    folder = tempfile.mkdtemp(prefix="isvc-", dir=_short_folder())
    watched, alive = os.pipe()
    guard = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "isvc.run.guard", folder, str(watched),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, process_group=0, pass_fds=(watched,),
    )  # fmt: skip
    os.close(watched)
    group = Group(guard, Path(folder), alive, environment, output)
    try:
        yield group
    finally:
        try:
            await group.stop()
        finally:
            os.close(alive)
            # Closes its standard input, and waits until it has cleaned up.
            await until_done(asyncio.create_task(guard.communicate(b"")))


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
    return visible(last_state(line.decode(errors="replace")))
