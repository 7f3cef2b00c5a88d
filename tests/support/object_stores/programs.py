"""The servers' programs, built by ``tests/cluster/stores`` at their first use, and how they are started and ended."""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.support.waiting import eventually

_SCRIPT = Path(__file__).parents[2] / "cluster/stores"
_STOP_TIMEOUT_S = 5


def program(name: str) -> str:
    """The path of versitygw, fake-gcs-server or nginx."""
    return str(_folder() / name)


@functools.cache
def _folder() -> Path:
    return Path(subprocess.run(["bash", _SCRIPT], stdout=subprocess.PIPE, text=True, check=True).stdout.strip())


@contextlib.contextmanager
def listening(
    command: Sequence[str | Path], port: int, log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """The program once it listens on the port; it is gone at the end of the block."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env={**os.environ, **(environment or {})}
        )

    def listens() -> bool:
        assert process.poll() is None, f"{command[0]} ended: {log.read_text()[-2000:]}"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
        return False

    try:
        eventually(listens, f"{command[0]} listens", otherwise=log.read_text)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
