"""Services under load, and what happens to their pods in a cluster's life: rolling updates, scale-in, node drains."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

from isvc_operator.manifests import name_of
from tests.support.namespace import Namespace
from tests.support.steady_load import GrpcTarget, HttpTarget
from tests.support.waiting import eventually

RATE = 50  # requests a second to each service
PROTOCOLS = {"over-http": "v2", "over-grpc": "grpc-v2"}
CLAIM = "doubling"
NOTHING: Mapping[str, Any] = {}
_WITHIN = 90.0  # seconds for a change of the pods


def write_model(folder: Path) -> None:
    """Write ``model.onnx``, which doubles ``x``."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, 4]) for name in ("x", "y"))
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "doubling", [x], [y])
    model = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, folder / "model.onnx")


def a_service(name: str, protocol: str, predictor: Mapping[str, Any] = NOTHING) -> dict[str, Any]:
    """A service of that model which is up in a second; its predictor has more fields."""
    model = {
        "modelFormat": {"name": "onnx"},
        "runtime": "isvc-mar",
        "protocolVersion": protocol,
        "storageUri": f"pvc://{CLAIM}",
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"cpu": "1", "memory": "512Mi"}},
    }
    metadata = {"name": name}
    kind = "InferenceService"
    spec = {"predictor": {"minReplicas": 1, "model": model, **predictor}}
    return {"apiVersion": "serving.kserve.io/v1beta1", "kind": kind, "metadata": metadata, "spec": spec}


@dataclass(frozen=True)
class Services:
    """Two services of one model: one over HTTP, one over gRPC, both through the ingress at ``address``.

    ``predictor`` has more fields for both.
    """

    namespace: Namespace
    address: str
    predictor: Mapping[str, Any] = field(default_factory=dict)

    def deploy(self) -> None:
        """Apply both, and wait until they are Ready."""
        self.namespace.apply(*(a_service(*item, self.predictor) for item in PROTOCOLS.items()))
        for name in PROTOCOLS:
            self.namespace.wait_for_condition("Ready", "True", service=name, within=_WITHIN)

    def targets(self) -> Sequence[HttpTarget | GrpcTarget]:
        """The clients' ends."""
        hosts = {name: f"{name}.{self.namespace.name}.example.com" for name in PROTOCOLS}
        return [
            HttpTarget(self.address, hosts["over-http"], "over-http"),
            GrpcTarget(self.address, hosts["over-grpc"], "over-grpc"),
        ]

    def roll(self, number: int) -> None:
        """Change the pods of both, and wait until they are replaced."""
        self._patch({"annotations": {"round": str(number)}})

        def rolled(deployment: dict[str, Any]) -> bool:
            annotations = deployment["spec"]["template"]["metadata"].get("annotations", {})
            return annotations.get("round") == str(number) and _settled(deployment)

        self._wait(rolled, f"update {number} is rolled out")

    def wait_for_newer_template(self) -> None:
        """Wait until both say that a newer version of the operator has another template, which waits."""
        for name in PROTOCOLS:
            self.namespace.wait_for_condition("PodsOutdated", "True", service=name, within=_WITHIN)

    def pods(self) -> list[str]:
        """The names of all pods."""
        return sorted(map(name_of, self._pods()))

    def scale(self, replicas: int) -> None:
        """Change the number of pods of both, and wait until so many are ready, and no others but those that end."""
        self._patch({"minReplicas": replicas})
        self._wait(
            lambda found: found["spec"]["replicas"] == replicas and _settled(found), f"there are {replicas} pods each"
        )

    def wait_for_ends(self) -> None:
        """Wait until every pod that was to end has ended."""
        eventually(lambda: not any(map(_ends, self._pods())), "no pod is ending", _WITHIN)

    def drain(self) -> None:
        """Evict every pod, as ``kubectl drain`` does: one of each service at a time, as replacements are ready."""
        pods = [pod for pod in self._pods() if not _ends(pod)]
        of_services = [[name_of(pod) for pod in pods if _is_of(pod, name)] for name in PROTOCOLS]
        for names in zip(*of_services, strict=True):
            for name in names:
                eventually(partial(self._evict, name), f"{name} is evicted", _WITHIN)
            eventually(partial(self._are_ready, len(pods)), "the replacements are ready", _WITHIN)

    def _evict(self, name: str) -> bool:
        """Whether it was evicted: a disruption budget may not allow it yet."""
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        path = f"/api/v1/namespaces/{self.namespace.name}/pods/{name}/eviction"
        with suppress(AssertionError):
            self.namespace.kubectl("create", "--raw", path, "--filename=-", stdin=json.dumps(eviction))
            return True
        return False

    def _patch(self, predictor: dict[str, Any]) -> None:
        patch = json.dumps({"spec": {"predictor": predictor}})
        for name in PROTOCOLS:
            self.namespace.kubectl("patch", "inferenceservice", name, "--type=merge", f"--patch={patch}")

    def _wait(self, fits: Callable[[dict[str, Any]], bool], what: str) -> None:
        def all_fit() -> bool:
            return all(fits(self.namespace.wait_for("deployment", f"{name}-predictor")) for name in PROTOCOLS)

        eventually(all_fit, what, _WITHIN)

    def _pods(self) -> list[dict[str, Any]]:
        selector = f"serving.kserve.io/inferenceservice in ({','.join(PROTOCOLS)})"
        found = json.loads(self.namespace.kubectl("get", "pods", f"--selector={selector}", "--output=json"))
        items: list[dict[str, Any]] = found["items"]
        return items

    def _are_ready(self, count: int) -> bool:
        staying = (pod for pod in self._pods() if not _ends(pod))
        conditions = (item for pod in staying for item in pod["status"].get("conditions", ()))
        return sum(item["type"] == "Ready" and item["status"] == "True" for item in conditions) == count


def _ends(pod: dict[str, Any]) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _is_of(pod: dict[str, Any], service: str) -> bool:
    return bool(pod["metadata"]["labels"]["serving.kserve.io/inferenceservice"] == service)


def _settled(deployment: dict[str, Any]) -> bool:
    status, wanted = deployment.get("status", {}), deployment["spec"]["replicas"]
    numbers = [status.get(name, 0) for name in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")]
    return numbers == [wanted] * 4 and bool(status.get("observedGeneration") == deployment["metadata"]["generation"])
