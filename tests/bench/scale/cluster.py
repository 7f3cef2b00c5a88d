"""An API server with etcd, the controllers of Deployments, a scheduler, and KWOK.

KWOK plays one node: each of its pods is ready at once, and gone at once when it is deleted. Nothing else runs.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.support.apiserver import ApiServer, running
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[3]
NODE = "kwok"
_CONTROLLERS = "deployment-controller,replicaset-controller,endpointslice-controller,garbage-collector-controller"
# In place of their own limits: 20 calls a second for each controller, 50 for the scheduler.
_NO_LIMIT = ("--kube-api-qps=5000", "--kube-api-burst=10000")
_STAGES = ("node/fast/node-initialize", "pod/fast/pod-ready", "pod/fast/pod-delete")
_START_TIMEOUT = 60.0  # seconds
_STOP_TIMEOUT = 10.0  # seconds
_MIB = 1024 * 1024


@dataclass(frozen=True)
class Cluster:
    """``api_server`` is the process of the API server, ``folder`` has the logs of the other programs."""

    server: ApiServer
    api_server: psutil.Process
    folder: Path


@contextlib.contextmanager
def running_cluster(
    assets: Path, folder: Path, install: Callable[[ApiServer], None], *flags: str, limited: bool = False
) -> Iterator[Cluster]:
    """A cluster with what ``install`` makes, and these flags of the API server; it is gone at the end of the block.

    ``limited``: controllers and scheduler send as many calls a second as by default, and not as many as they can.
    """
    limits = () if limited else _NO_LIMIT
    controllers, scheduler, kwok = (
        printed("program", name) for name in ("kube-controller-manager", "kube-scheduler", "kwok")
    )
    stages = [f"--config={printed('sources', 'kwok')}/kustomize/stage/{name}.yaml" for name in _STAGES]
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(running(assets, *flags))
        install(server)  # the CRDs first: the garbage collector looks for kinds every 30 seconds
        kubeconfig = f"--kubeconfig={server.kubeconfig}"
        # They elect no leader and serve nothing.
        for command in (
            [controllers, kubeconfig, f"--controllers={_CONTROLLERS}", *limits, "--leader-elect=false",
             "--secure-port=0"],
            [scheduler, kubeconfig, *limits, "--leader-elect=false", "--secure-port=0"],
            [kwok, kubeconfig, "--manage-all-nodes", "--cidr=10.128.0.0/12", *stages],
        ):  # fmt: skip
            stack.enter_context(started(command, folder / f"{Path(command[0]).name}.log"))
        _add_node(server)
        yield Cluster(server, _listening(server), folder)


@contextlib.contextmanager
def started(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that writes to ``log``, in a ``folder``; it is stopped at the end of the block."""
    environment = {**os.environ, **(environment or {})}
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, cwd=folder
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def cpu_seconds(process: psutil.Process) -> float:
    """The processor time that it has used since its start."""
    used = process.cpu_times()
    return float(used.user + used.system)


@dataclass(frozen=True)
class Memory:
    """MiB: all that is resident; with shared pages divided among those that share them; without shared pages.

    What is shared depends on the other processes of the machine.
    """

    rss: float
    pss: float
    uss: float

    @classmethod
    def of(cls, process: psutil.Process) -> Memory:
        """The memory of a process."""
        found = process.memory_full_info()
        return cls(*(round(number / _MIB, 2) for number in (found.rss, found.pss, found.uss)))


def _add_node(server: ApiServer) -> None:
    server.send("POST", "/api/v1/nodes", {"metadata": {"name": NODE}})
    # Admission adds a taint, which a controller that is not here would remove.
    server.send("PATCH", f"/api/v1/nodes/{NODE}", {"spec": {"taints": None}}, content="application/merge-patch+json")

    def is_ready() -> bool:
        conditions: list[dict[str, Any]] = server.send("GET", f"/api/v1/nodes/{NODE}")["status"].get("conditions", [])
        return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)

    eventually(is_ready, "KWOK has made its node ready", _START_TIMEOUT)


def _listening(server: ApiServer) -> psutil.Process:
    """The process of the API server, a child of this one."""
    port = f"--secure-port={server.base_url.rpartition(':')[2]}"
    return next(child for child in psutil.Process().children() if port in child.cmdline())


def printed(script: str, argument: str) -> str:
    """What a script of ``tests/cluster`` prints."""
    command = ["bash", "tests/cluster/" + script, argument]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
