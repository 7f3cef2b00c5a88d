"""The operator of a cluster with two replicas, and what happens to the one that leads."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.cluster import RealCluster
from tests.support.source_tree import ROOT
from tests.support.waiting import eventually

HOME = "isvc-system"
HA = ROOT / "manifests" / "ha"
_OPERATOR = "deployment/isvc-operator"
_OBJECTS = ("lease-role.yaml", "disruption-budget.yaml", "quota.yaml")
_WITHIN = 60.0  # seconds


@dataclass(frozen=True)
class Replicas:
    """The installed operator, once the component ``manifests/ha`` is added to it."""

    cluster: RealCluster

    def leader(self) -> str:
        """The identity in the lease, which begins with the name of the pod; "" if nobody leads."""
        lease = self.cluster.find(HOME, "lease", "isvc-operator") or {}
        return str(lease.get("spec", {}).get("holderIdentity") or "")

    def pods(self) -> list[dict[str, Any]]:
        found = json.loads(
            self._kubectl("get", "pods", "--selector=app.kubernetes.io/name=isvc-operator", "--output=json")
        )
        return [pod for pod in found["items"] if "deletionTimestamp" not in pod["metadata"]]

    def kill_leader(self) -> str:
        """End the leader's process at once, so that it cannot release the lease; return its identity."""
        return self._signal_leader(signal.SIGKILL)

    def _signal_leader(self, number: signal.Signals) -> str:
        leader = self.leader()
        (uid,) = (pod["metadata"]["uid"] for pod in self.pods() if pod["metadata"]["name"] == _pod(leader))
        processes = list(_operators_of(uid))
        assert processes, "no process of the leader runs on this host; the test needs a cluster whose node it is"
        for process in processes:
            os.kill(process, number)
        return leader

    def wait_for_two(self) -> None:
        """Wait until one replica leads and two are ready."""
        eventually(lambda: [_is_ready(pod) for pod in self.pods()] == [True] * 2, "two replicas are ready", _WITHIN)
        eventually(self._is_led, "one of them leads", _WITHIN)

    def _is_led(self) -> bool:
        """Whether the lease is held, and not by a pod of before."""
        return _pod(self.leader()) in [pod["metadata"]["name"] for pod in self.pods()]

    def _kubectl(self, *arguments: str) -> str:
        return self.cluster.kubectl("--namespace", HOME, *arguments)


@contextlib.contextmanager
def two_replicas(cluster: RealCluster) -> Iterator[Replicas]:
    """Add the component to the operator that is installed, and take it away at the end."""
    replicas = Replicas(cluster)
    for name in _OBJECTS:
        cluster.kubectl("apply", f"--filename={HA / name}")
    cluster.kubectl("--namespace", HOME, "patch", _OPERATOR, f"--patch-file={HA / 'replicas.yaml'}")
    try:
        replicas.wait_for_two()
        yield replicas
    finally:
        cluster.kubectl("--namespace", HOME, "rollout", "undo", _OPERATOR)
        cluster.kubectl("--namespace", HOME, "scale", _OPERATOR, "--replicas=1")
        for name in _OBJECTS:
            cluster.kubectl("delete", f"--filename={HA / name}")
        cluster.kubectl("--namespace", HOME, "rollout", "status", _OPERATOR, "--timeout=120s")


@contextlib.contextmanager
def no_operator(cluster: RealCluster) -> Iterator[None]:
    """Stop the operator that is installed, and start it again at the end."""
    cluster.kubectl("--namespace", HOME, "scale", _OPERATOR, "--replicas=0")
    try:
        eventually(lambda: not Replicas(cluster).pods(), "the operator has stopped", _WITHIN)
        yield
    finally:
        cluster.kubectl("--namespace", HOME, "scale", _OPERATOR, "--replicas=1")
        cluster.kubectl("--namespace", HOME, "rollout", "status", _OPERATOR, "--timeout=120s")


def _pod(identity: str) -> str:
    return identity.partition("_")[0]


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def _operators_of(uid: str) -> Iterator[int]:
    """Yield the operator's processes in a pod, by their control group."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                groups = (folder / "cgroup").read_text().replace("_", "-")
                if uid in groups and b"isvc_operator" in (folder / "cmdline").read_bytes():
                    yield int(folder.name)
