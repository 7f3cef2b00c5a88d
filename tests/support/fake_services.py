"""Services as a cluster has them at the moments of their lives: raw objects, for a FakeSource.

Times are seconds after the service was applied; `began` is when that was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from isvc.view.source import Related
from tests.support.builders import Manifest, a_deployment_status, a_format, a_runtime_body, the_shipped_runtime_body

BEGAN = datetime(2026, 1, 1, 12, tzinfo=UTC)
IMAGE = "ghcr.io/example/isvc-mar:0.2.0"
INITIALIZER = "ghcr.io/example/storage-initializer:0.2.0"
TRACEBACK = """\
Traceback (most recent call last):
  File "/mnt/models/handler.py", line 11, in initialize
    self.model.load_state_dict(torch.load(path))
  File "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py", line 2189, in load_state_dict
RuntimeError: Error(s) in loading state_dict for ConvNet:
\tsize mismatch for fc1.weight"""


@dataclass(frozen=True, kw_only=True)
class FakeServices:
    """A service of one predictor: where it is on its way to Ready."""

    name: str = "torchserve"
    namespace: str = "models"
    began: datetime = BEGAN
    uri: str = "pvc://leeway"
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    spec: Mapping[str, Any] = field(default_factory=dict)

    # --- its moments ---------------------------------------------------------------------------------------

    def pending(self) -> Related:
        """Nobody has a node for its pod yet."""
        return self._related([self.pod(phase="Pending", node=None)], "Unknown", "Scheduling", "waiting for a node")

    def loading(self, percent: int) -> Related:
        """Its model is copied."""
        copying = self._container("storage-initializer", INITIALIZER, running=3)
        line = f"bert-model.mar: {percent:3d} % of 1.3 GiB (84.2 MiB/s, {(100 - percent) // 6} s left)"
        return self._related(
            [self.pod(initializer=copying)],
            "Unknown",
            "LoadingModel",
            f"pod {self.pod_name}: the storage-initializer is copying the model: {line} (0 of 1 pods available)",
            logs={(self.pod_name, "storage-initializer"): line},
        )

    def starting(self) -> Related:
        """Its server loads the model."""
        server = self._container("kserve-container", IMAGE, running=21)
        message = f"pod {self.pod_name}: the server is starting and loading the model"
        return self._related([self.pod(initializer=self._copied, server=server)], "Unknown", "StartingServer", message)

    def ready(self, *, pods: int = 1, events: bool = True) -> Related:
        """It serves."""
        return self._related([self.ready_pod(number) for number in range(pods)], "True", "", "", told=events)

    def failed(self, log: str = "ValueError: Error(s) in loading state_dict for ConvNet") -> Related:
        """Its server ends, again and again."""
        ended = {"exitCode": 1, "reason": "Error", "message": log}
        ended |= {"startedAt": self.at(111), "finishedAt": self.at(119)}
        server = {
            **self._container("kserve-container", IMAGE),
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container"}},
            "lastState": {"terminated": ended},
            "restartCount": 3,
        }
        return self._related(
            [self.pod(initializer=self._copied, server=server)],
            "False",
            "ServerFailed",
            f"pod {self.pod_name}, container kserve-container exited with code 1: {log}",
            logs={(self.pod_name, "kserve-container"): f"loading model mnist\n{log}"},
        )

    def unprocessed(self) -> Related:
        """No operator has seen it."""
        related = self._related([], "Unknown", "", "", told=False)
        service = {name: value for name, value in related.service.items() if name != "status"}
        return replace(related, service=service, children=[])

    def stopped(self) -> Related:
        """Its annotation stops it."""
        related = self._related([], "False", "Stopped", "the service is stopped", told=False)
        status = related.service["status"]
        status["conditions"].append({"type": "Stopped", "status": "True", "lastTransitionTime": self.at(40)})
        return related

    def rolling(self, *, ready: str = "Unknown") -> Related:
        """A pod of a newer template loads its model, while two older ones serve."""
        server = self._container("kserve-container", IMAGE, running=3621)
        name = f"{self.name}-predictor-85f4b9cd6-mm2kq"
        newer = self.pod(name=name, template="85f4b9cd6", initializer=self._copied_at(3603), server=server)
        newer["metadata"]["creationTimestamp"] = self.at(3600)
        message = (
            f"pod {newer['metadata']['name']}: the server is starting and loading the model (2 of 2 pods available)"
        )
        related = self._related([newer, self.ready_pod(), self.ready_pod(1)], ready, "StartingServer", message)
        counts = a_deployment_status(updated=1, total=3, available=2)
        children = [
            {**child, "spec": {**child["spec"], "replicas": 2}, "status": counts}
            if child["kind"] == "Deployment"
            else child
            for child in related.children
        ]
        return replace(related, children=children)

    def crashed(self, reason: str, exit_code: int) -> Related:
        """Its server, which was ready after 34 seconds, ended after 3 days; it has been ready again since."""
        ended = 3 * 86400
        last = {"exitCode": exit_code, "reason": reason, "startedAt": self.at(21), "finishedAt": self.at(ended)}
        server = {
            **self._container("kserve-container", IMAGE, running=ended + 1),
            "lastState": {"terminated": last},
            "restartCount": 1,
            "ready": True,
        }
        return self.rolled_out(self._related([self.ready_pod(server=server, ready=ended + 14)], "True", "", ""))

    def flapped(self) -> Related:
        """It was ready after 34 seconds; after 3 days it was not for a while, without a restart."""
        return self.rolled_out(self._related([self.ready_pod(ready=3 * 86400)], "True", "", ""))

    def rolled_out(self, related: Related, seconds: float = 34) -> Related:
        """Its Deployment says when all of its pods were available first."""
        done = {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}
        children = [
            {**child, "status": {**child["status"], "conditions": [{**done, "lastUpdateTime": self.at(seconds)}]}}
            if child["kind"] == "Deployment"
            else child
            for child in related.children
        ]
        return replace(related, children=children)

    # --- its objects ---------------------------------------------------------------------------------------

    @property
    def pod_name(self) -> str:
        return f"{self.name}-predictor-7c9d8b6f5-x2x7q"

    def at(self, seconds: float) -> str:
        return (self.began + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def ready_pod(self, number: int = 0, **fields: Any) -> Manifest:
        server = {**self._container("kserve-container", IMAGE, running=21), "ready": True}
        name = self.pod_name if number == 0 else f"{self.pod_name[:-5]}{number:05d}"
        return self.pod(
            **{"name": name, "phase": "Running", "initializer": self._copied, "server": server, "ready": 34, **fields}
        )

    def pod(
        self,
        *,
        name: str = "",
        component: str = "predictor",
        phase: str = "Pending",
        node: str | None = "node-1",
        initializer: Manifest | None = None,
        server: Manifest | None = None,
        ready: float | None = None,
        template: str = "7c9d8b6f5",
    ) -> Manifest:
        conditions = [{"type": "Ready", "status": "False"}]
        if ready is not None:
            conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": self.at(ready)}]
        if node is not None:
            conditions.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": self.at(1)})
        waiting = {**self._container("kserve-container", IMAGE), "state": {"waiting": {"reason": "PodInitializing"}}}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name or self.pod_name,
                "namespace": self.namespace,
                "uid": f"uid-of-{name or self.pod_name}",
                "creationTimestamp": self.at(1),
                "labels": {
                    "serving.kserve.io/inferenceservice": self.name,
                    "component": component,
                    "app": f"isvc.{self.name}-{component}",
                    "pod-template-hash": template,
                },
            },
            "spec": {} if node is None else {"nodeName": node},
            "status": {
                "phase": phase,
                "conditions": conditions,
                "initContainerStatuses": [initializer] if initializer else [],
                "containerStatuses": [server or waiting] if node is not None else [],
            },
        }

    @property
    def _copied(self) -> Manifest:
        return self._copied_at(3)

    def _copied_at(self, began: float) -> Manifest:
        ended = {"exitCode": 0, "reason": "Completed", "startedAt": self.at(began), "finishedAt": self.at(began + 17)}
        return {**self._container("storage-initializer", INITIALIZER), "ready": True, "state": {"terminated": ended}}

    def _container(self, name: str, image: str, *, running: float | None = None) -> Manifest:
        state = {} if running is None else {"running": {"startedAt": self.at(running)}}
        return {"name": name, "image": image, "state": state, "lastState": {}, "restartCount": 0, "ready": False}

    def _related(
        self,
        pods: Sequence[Manifest],
        status: str,
        reason: str,
        message: str,
        *,
        logs: Mapping[tuple[str, str], str] | None = None,
        told: bool = True,
    ) -> Related:
        serving = sum(pod["status"]["phase"] == "Running" and status == "True" for pod in pods)
        children = self.children(replicas=len(pods), available=serving)
        if status == "Unknown" and pods:
            moves = {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated"}
            children[0]["status"]["conditions"] = [{**moves, "lastUpdateTime": self.at(1)}]
        return Related(
            service=self.body(status, reason, message, len(pods)),
            children=children,
            pods=pods,
            events=self.events(status) if told else (),
            runtimes=[a_runtime_body("isvc-mar", formats=[a_format(priority=2)]), the_shipped_runtime_body()],
            logs=logs or {},
        )

    def body(self, status: str, reason: str, message: str, pods: int = 1) -> Manifest:
        changed = self.at({"True": 34, "False": 30}.get(status, 4))

        def condition(type_: str, value: str = status) -> Manifest:
            said = {"reason": reason, "message": message} if value == status and reason else {}
            return {"type": type_, "status": value, "lastTransitionTime": changed, **said}

        return {
            "apiVersion": "serving.kserve.io/v1beta1",
            "kind": "InferenceService",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "uid": f"uid-of-{self.name}",
                "generation": 1,
                "creationTimestamp": self.at(0),
                "labels": dict(self.labels),
                "annotations": dict(self.annotations),
            },
            "spec": {
                "predictor": {
                    "minReplicas": pods,
                    "model": {"modelFormat": {"name": "pytorch"}, "storageUri": self.uri, "protocolVersion": "v1"},
                },
                **self.spec,
            },
            "status": {
                "observedGeneration": 1,
                "url": f"http://{self.name}.{self.namespace}.example.com",
                "clusterServingRuntimeName": "isvc-mar",
                "conditions": [condition("PredictorReady"), condition("IngressReady", "True"), condition("Ready")],
            },
        }

    def children(self, *, replicas: int = 1, available: int = 1) -> list[Manifest]:
        host, to = f"{self.name}.{self.namespace}.example.com", f"{self.name}-predictor"
        path = {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": to, "port": {"number": 80}}}}
        return [
            {
                **self._child("apps/v1", "Deployment", to, component="predictor"),
                "spec": {
                    "replicas": replicas,
                    "progressDeadlineSeconds": 600,
                    "template": {
                        "spec": {
                            "initContainers": [_spec("storage-initializer", INITIALIZER, self.uri, "/mnt/models")],
                            "containers": [_spec("kserve-container", IMAGE, "--model-dir=/mnt/models", "--port=8080")],
                        }
                    },
                },
                "status": a_deployment_status(updated=replicas, total=replicas, available=available),
            },
            {**self._child("v1", "Service", to), "spec": {"ports": [{"port": 80, "targetPort": 8080}]}},
            {
                **self._child("networking.k8s.io/v1", "Ingress", self.name),
                "spec": {"rules": [{"host": host, "http": {"paths": [path]}}]},
            },
        ]

    def _child(self, version: str, kind: str, name: str, **labels: str) -> Manifest:
        metadata = {"name": name, "namespace": self.namespace, "generation": 1, "labels": labels, "annotations": {}}
        return {"apiVersion": version, "kind": kind, "metadata": metadata}

    def events(self, status: str) -> list[Manifest]:
        told = [
            self.event(
                1, "SuccessfulCreate", f"Created pod: {self.pod_name}", about=f"ReplicaSet/{self.pod_name[:-6]}"
            ),
            self.event(2, "Pulled", f'Container image "{INITIALIZER}" already present on machine'),
        ]
        if status == "False":
            told.append(self.event(119, "BackOff", "Back-off restarting failed container", warning=True, count=7))
        return told

    def event(
        self, seconds: float, reason: str, message: str, *, about: str = "", warning: bool = False, count: int = 1
    ) -> Manifest:
        kind, _, name = (about or f"Pod/{self.pod_name}").partition("/")
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{name}.{reason}", "namespace": self.namespace},
            "involvedObject": {"kind": kind, "name": name, "namespace": self.namespace, "uid": f"uid-of-{name}"},
            "type": "Warning" if warning else "Normal",
            "reason": reason,
            "message": message,
            "count": count,
            "firstTimestamp": self.at(seconds),
            "lastTimestamp": self.at(seconds),
        }


def _spec(name: str, image: str, *args: str) -> Manifest:
    return {"name": name, "image": image, "args": list(args)}
