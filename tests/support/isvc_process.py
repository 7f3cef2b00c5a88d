"""``isvc run`` as its users have it: its output, its exit code, and its signals where it is a process."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from isvc.commands import main
from tests.support.namespace import Namespace
from tests.support.ports import free_port

_ISVC = (sys.executable, "-c", "from isvc.commands import main; raise SystemExit(main())")
TIMEOUT = 60.0  # seconds


@dataclass(frozen=True)
class Done:
    """What a run that has ended gave and printed."""

    returncode: int
    stdout: str
    stderr: str


def on_cluster(namespace: Namespace, command: str, *arguments: str) -> Done:
    """Run a command for the namespace of the cluster in $KUBECONFIG, in this process."""
    with (
        contextlib.redirect_stdout(io.StringIO()) as stdout,
        contextlib.redirect_stderr(io.StringIO()) as stderr,
    ):
        returncode = main([command, *arguments, f"--namespace={namespace.name}"])
    return Done(returncode, stdout.getvalue(), stderr.getvalue())


@dataclass(frozen=True)
class Sandbox:
    """Where ``isvc`` runs: ``folder`` holds the test's files, and the run's own folder is made in ``temporary``."""

    folder: Path
    temporary: Path
    port: int

    def run(self, *arguments: str | Path) -> Done:
        """Run ``isvc run`` with these arguments and a port of its own to the end, in this process."""
        with (
            mock.patch.object(tempfile, "tempdir", str(self.temporary)),
            mock.patch.dict(os.environ, TMPDIR=str(self.temporary)),
            contextlib.redirect_stdout(io.StringIO()) as stdout,
            contextlib.redirect_stderr(io.StringIO()) as stderr,
        ):
            returncode = main(self._arguments(arguments))
        return Done(returncode, stdout.getvalue(), stderr.getvalue())

    @contextlib.contextmanager
    def running(
        self, *arguments: str | Path, environment: Mapping[str, str] | None = None
    ) -> Iterator[subprocess.Popen[str]]:
        """Run as a process with these further variables; killed at the end of the block if it has not ended by then."""
        command = [*_ISVC, *self._arguments(arguments)]
        environment = {**os.environ, "TMPDIR": str(self.temporary), **(environment or {})}
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                yield process
            except AssertionError as error:
                process.kill()
                if process.stderr and not process.stderr.closed:
                    error.add_note(f"what else it had written to stderr:\n{process.stderr.read()}")
                raise
            finally:
                process.kill()

    def ask(self, host: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and JSON of one answer of the ingress."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        with contextlib.closing(connection):
            content = None if body is None else json.dumps(body)
            connection.request("POST" if content else "GET", path, content, {"Host": host})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    def _arguments(self, arguments: tuple[str | Path, ...]) -> list[str]:
        return ["run", *map(str, arguments), "--http-port", str(self.port)]


@contextlib.contextmanager
def new_sandbox(folder: Path) -> Iterator[Sandbox]:
    """A sandbox with a free port for the ingress; its temporary folder has a short name, as machines have."""
    with tempfile.TemporaryDirectory() as temporary:
        yield Sandbox(folder, Path(temporary), free_port())


def read_until(stream: Any, words: str) -> str:
    """Read lines until one has ``words``; all that was read."""
    read = ""
    for line in stream:
        read += line
        if words in line:
            return read
    raise AssertionError(f"the output ended without {words!r}:\n{read}")


@contextlib.contextmanager
def drained(process: subprocess.Popen[str]) -> Iterator[None]:
    """Read what a process writes to stderr, so that it never waits; an error of the block tells the last of it."""
    last: deque[str] = deque(maxlen=100)
    reading = threading.Thread(target=lambda: last.extend(process.stderr or ()))
    reading.start()
    try:
        yield
    except Exception as error:
        process.kill()
        reading.join()
        error.add_note(f"the last of what it had written to stderr:\n{''.join(last)}")
        raise
    reading.join()


def is_running(pid: int) -> bool:
    """Whether a process of that id does anything yet; one that only waits to be collected does not."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return state.strip() != "" and not state.startswith("Z")


def stop(process: subprocess.Popen[str], number: signal.Signals = signal.SIGTERM) -> tuple[str, str]:
    """Send a signal; the rest of both outputs, which end when nothing of the run is left."""
    process.send_signal(number)
    return process.communicate(timeout=TIMEOUT)
