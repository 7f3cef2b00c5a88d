"""Our operator as a process, and the address of its metrics."""

from __future__ import annotations

import contextlib
import http.client
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import psutil

from tests.bench.scale.cluster import Cluster, started
from tests.support.ports import free_port
from tests.support.waiting import eventually

_START_TIMEOUT = 60.0  # seconds


@dataclass(frozen=True)
class Operator:
    """``port`` serves its probes and its metrics."""

    process: psutil.Process
    port: int


@contextlib.contextmanager
def running_operator(cluster: Cluster, *flags: str, under: Sequence[str] = ()) -> Iterator[Operator]:
    """The operator, once its caches are filled; ``under`` is a command that starts it."""
    port = free_port()
    command = [*under, sys.executable, "-m", "isvc_operator", f"--health-port={port}", *flags]
    log = cluster.folder / "operator.log"
    with started(command, log, {"KUBECONFIG": str(cluster.server.kubeconfig)}) as process:
        eventually(lambda: _is_ready(port), f"the operator is ready; its log is {log}", _START_TIMEOUT)
        yield Operator(psutil.Process(process.pid), port)


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    with contextlib.closing(connection):
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False
