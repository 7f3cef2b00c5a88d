"""A node that runs no containers, beside the real controllers of Deployments, ReplicaSets and EndpointSlices.

A thread does what the scheduler and the kubelet do: it binds pods, lets them become ready, and removes deleted ones.
A ``program`` is a process of this machine in place of a container: it starts with the pod, and again when it ends.
"""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from isvc_operator.api.names import LABEL_SERVICE
from tests.support.apiserver import ApiServer, Refused

NODE = "fake"
_CONTROLLERS = "deployment-controller,replicaset-controller,endpointslice-controller"
_STOP_TIMEOUT = 20.0  # seconds
Pod = Mapping[str, Any]
Start = Callable[[Pod], subprocess.Popen[bytes]]


@dataclass
class FakeNode:
    """``programs`` by the label ``app.kubernetes.io/name`` of their pods. While ``held``, pods of services wait."""

    server: ApiServer
    programs: Mapping[str, Start] = field(default_factory=dict)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)  # by the uid of the pod
    held: threading.Event = field(default_factory=threading.Event)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def run(self, ends: threading.Event) -> None:
        """Run until the event is set."""
        try:
            while not ends.wait(0.1):
                pods = self.server.send("GET", "/api/v1/pods")["items"]
                self._stop_all_but(
                    {pod["metadata"]["uid"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}
                )
                for pod in pods:
                    with contextlib.suppress(Refused):  # it has changed meanwhile
                        self._advance(pod)
        finally:
            self._stop_all_but(set())

    def _advance(self, pod: Pod) -> None:
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        if "deletionTimestamp" in metadata:
            self.server.send("DELETE", path, {"gracePeriodSeconds": 0})
        elif self.held.is_set() and LABEL_SERVICE in (metadata.get("labels") or {}):
            return
        elif "nodeName" not in pod["spec"]:
            target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
            self.server.send("POST", f"{path}/binding", {"metadata": {"name": metadata["name"]}, "target": target})
        elif self._started_anew(pod) or pod["status"].get("phase") != "Running":
            content = "application/strategic-merge-patch+json"
            self.server.send("PATCH", f"{path}/status", {"status": self._ready(pod)}, content=content)

    def _started_anew(self, pod: Pod) -> bool:
        """Start the pod's program, if it has one that does not run."""
        start, uid = self.programs.get(_name(pod)), pod["metadata"]["uid"]
        if start is None or (uid in self.running and self.running[uid].poll() is None):
            return False
        self.running[uid] = start(pod)
        return True

    def _ready(self, pod: Pod) -> dict[str, Any]:
        number = next(self._numbers)
        address = pod["status"].get("podIP") or f"10.1.{number // 250}.{number % 250 + 1}"
        containers = [
            {
                "name": item["name"],
                "image": item["image"],
                "imageID": "",
                "containerID": f"fake://{number}",
                "ready": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
            }
            for item in pod["spec"]["containers"]
        ]
        conditions = [{"type": type_, "status": "True"} for type_ in ("PodScheduled", "ContainersReady", "Ready")]
        return {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": conditions,
            "containerStatuses": containers,
        }

    def _stop_all_but(self, uids: set[str]) -> None:
        for uid in self.running.keys() - uids:
            process = self.running.pop(uid)
            process.terminate()
            process.wait(_STOP_TIMEOUT)


@contextlib.contextmanager
def fake_node(
    server: ApiServer, controller_manager: Path, log: Path, programs: Mapping[str, Start]
) -> Iterator[FakeNode]:
    """The controllers and the node, until the end of the block."""
    server.send("POST", "/api/v1/nodes", {"metadata": {"name": NODE}})
    command = [
        str(controller_manager), f"--kubeconfig={server.kubeconfig}", f"--controllers={_CONTROLLERS}",
        "--leader-elect=false", "--secure-port=0",
    ]  # fmt: skip
    ends, node = threading.Event(), FakeNode(server, programs)
    thread = threading.Thread(target=node.run, args=(ends,))
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        thread.start()
        try:
            yield node
        finally:
            ends.set()
            thread.join()
            process.terminate()


def _name(pod: Pod) -> str:
    return str((pod["metadata"].get("labels") or {}).get("app.kubernetes.io/name", ""))
