"""Servers under measurement: held to certain cores, asked until they answer, ended with all their processes."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.bench.work import Question, Work

_START_S = 120
_REFUSED = (413, 422)
_POLL_S = 0.01
_MIB = 1024 * 1024


@dataclass(frozen=True)
class Cores:
    """Which cores the server and the load generator are held to."""

    name: str
    server: str
    load: str
    count: int  # of the server's


ONE_CORE = Cores("one core", server="0", load="1", count=1)
BOTH_CORES = Cores("both cores", server="0,1", load="0,1", count=2)


class ServerFailed(Exception):
    """A server did not come up, or does not answer as it should."""


@dataclass(frozen=True)
class Command:
    """How to start one process of a server."""

    argv: Sequence[str | Path]
    environment: Mapping[str, str]


class Server:
    """What was started for one server; ``port`` is where it answers."""

    def __init__(
        self,
        commands: Sequence[Command],
        port: int,
        cores: str,
        folder: Path,
        preexec_fn: Callable[[], None] | None = None,
    ) -> None:
        self.port = port
        self._log = folder / "log"
        self._processes: list[subprocess.Popen[bytes]] = []
        with self._log.open("ab") as log:
            for command in commands:
                self._processes.append(subprocess.Popen(
                    ["taskset", "--cpu-list", cores, *command.argv], cwd=folder, stdin=subprocess.DEVNULL, stdout=log,
                    stderr=subprocess.STDOUT, env=command.environment, start_new_session=True, preexec_fn=preexec_fn,
                ))  # fmt: skip

    def wait_for(self, question: Question, work: Work) -> None:
        """Until the answer is right; raises ServerFailed when it is wrong, or does not come."""
        answer = self._wait_for_200("POST", question.path, question.body)
        found = question.predictions(json.loads(answer))
        if found != [work.prediction]:
            raise ServerFailed(f"answers {str(found)[:200]} in place of {work.prediction}")

    def wait_ready(self, path: str) -> None:
        """Until the probe at ``path`` says so."""
        self._wait_for_200("GET", path, None)

    def get(self, path: str) -> Any:
        """The JSON document at ``path``."""
        return json.loads(self.text(path))

    def text(self, path: str) -> str:
        """What is at ``path``."""
        return self._wait_for_200("GET", path, None).decode()

    def end(self) -> None:
        """Kill every process of it."""
        tree = self.processes()
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        for child in tree:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        for process in self._processes:
            process.wait()
        psutil.wait_procs(tree, timeout=10)

    def processes(self) -> list[psutil.Process]:
        """What was started, and what that has started."""
        found = []
        for process in self._processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                top = psutil.Process(process.pid)
                found += [top, *top.children(recursive=True)]
        return [process for process in found if process.status() != psutil.STATUS_ZOMBIE]

    def _wait_for_200(self, method: str, path: str, body: bytes | None) -> bytes:
        deadline, last = time.monotonic() + _START_S, "no answer"
        while time.monotonic() < deadline:
            if any(process.poll() is not None for process in self._processes):
                raise ServerFailed(f"ended: {self._last_lines()}")
            with contextlib.suppress(OSError, http.client.HTTPException):
                status, answer = self._ask(method, path, body)
                if status == 200:
                    return answer
                last = f"{status} {answer[:300].decode(errors='replace')}"
                if status in _REFUSED:
                    break
            time.sleep(_POLL_S)
        raise ServerFailed(f"does not answer {path} ({last}): {self._last_lines()}")

    def _ask(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=_START_S)) as connection:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()

    def _last_lines(self) -> str:
        return " | ".join(self._log.read_text(errors="replace").splitlines()[-8:])


@contextlib.contextmanager
def running(
    commands: Sequence[Command], port: int, cores: str, folder: Path, preexec_fn: Callable[[], None] | None = None
) -> Iterator[Server]:
    """The server for the block; nothing of it is left afterwards. `preexec_fn` is called in its process first."""
    server = Server(commands, port, cores, folder, preexec_fn)
    try:
        yield server
    finally:
        server.end()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
