"""Runs of the initializer without its imports: a process that has them forks one for each that is asked for."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pkgutil
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import storage_initializer
from storage_initializer.cli import main


@dataclass(frozen=True)
class Run:
    """A run that goes on; to be waited for before the next is started."""

    pid: int
    server: subprocess.Popen[str]

    def exit_code(self) -> int:
        """Waits; negative if a signal ended it."""
        assert self.server.stdout is not None
        return int(self.server.stdout.readline())

    def kill_after(self, seconds: float) -> int:
        """The exit code, whether it ended by itself or was killed."""
        with selectors.DefaultSelector() as selector:
            assert self.server.stdout is not None
            selector.register(self.server.stdout, selectors.EVENT_READ)
            if not selector.select(seconds):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)
        return self.exit_code()


class Forks:
    def __init__(self, server: subprocess.Popen[str]) -> None:
        self._server = server

    def start(self, *arguments: object, environment: Mapping[str, str]) -> Run:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps([[str(each) for each in arguments], environment]) + "\n")
        self._server.stdin.flush()
        return Run(int(self._server.stdout.readline()), self._server)

    def duration(self, *arguments: object, environment: Mapping[str, str]) -> float:
        """Seconds that the quickest of some takes, so that few end before they are killed."""
        durations = []
        for _ in range(5):
            began = time.monotonic()
            assert self.start(*arguments, environment=environment).exit_code() == 0
            durations.append(time.monotonic() - began)
        return min(durations)


@contextlib.contextmanager
def forks() -> Iterator[Forks]:
    command = [sys.executable, "-m", __name__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        yield Forks(server)


def _serve() -> None:
    for module in pkgutil.walk_packages(storage_initializer.__path__, "storage_initializer."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _run(*json.loads(line))
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _run(arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    """Never returns to the loop."""
    code = 1
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = main(arguments, environment)
    finally:
        os._exit(code)


if __name__ == "__main__":
    _serve()
