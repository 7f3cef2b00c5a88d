"""A service, an API server that holds it, and the operator that reconciles it when the test says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from isvc_operator.config import OperatorConfig
from isvc_operator.controller.reconcile import Reconciler
from isvc_operator.kube.informer.cache import Cache
from isvc_operator.manifests import ServiceKey
from tests.support.builders import EARLIER, NAMESPACE, a_deployment_status, a_service_body
from tests.support.fakes import Clock, FakeKubeApi, Seconds, target_of

KEY = ServiceKey(NAMESPACE, "torchserve")
FIRST_CALLS = [
    "POST deployments/torchserve-predictor",
    "POST services/torchserve-predictor",
    "POST ingresses/torchserve",
    "PATCH inferenceservices/torchserve/status",
]
POD = "torchserve-predictor-1-a"
STATUS = "PATCH inferenceservices/torchserve/status"
LOG = f"GET pods/{POD}/log"


def first_update(child: str) -> list[str]:
    """The calls that update a child for the first time since it was created: its fields are adopted before."""
    return [f"GET {child}", f"PATCH {child}", f"PATCH {child}"]


@dataclass
class Cluster:
    """An API server, and the operator that watches it."""

    api: FakeKubeApi
    cache: Cache
    clock: Clock
    seconds: Seconds
    reconciler: Reconciler
    again: float | None = None

    async def reconcile(self, failures: int = 0) -> list[str]:
        """Reconcile after so many failures, again for as long as that is asked for at once; tell the calls."""
        before, self.again = len(self.api.calls), 0.0
        while self.again == 0:
            self.api.feed(self.cache)
            self.again = await self.reconciler.reconcile(KEY, failures)
            failures = 0
        return self.calls_since(before)

    def calls_since(self, start: int) -> list[str]:
        """The calls, each with the object that it is about."""
        return [f"{call.method} {target_of(call).partition(f'/{NAMESPACE}/')[2]}" for call in self.api.calls[start:]]

    async def settle(self) -> None:
        """Reconcile until there is nothing left to do.

        What the operator itself writes queues nothing, so a reconcile that does not ask for another has to be the last.
        """
        await self.reconcile()
        assert (left := await self.reconcile()) == [], f"nobody would have asked for {left}"

    def edit_service(self, **fields: Any) -> None:
        """Another generation of the service, as a user would apply it."""
        status = self.service.get("status", {})
        self.api.put({**a_service_body(**fields), "status": status})

    def roll_out(self, *pods: dict[str, Any], component: str = "predictor", **status: Any) -> None:
        """What the Deployment controller and the kubelet would do."""
        deployment = self.child("Deployment", component)
        observed = {"observed_generation": deployment["metadata"]["generation"], **status}
        self.api.put({**deployment, "status": a_deployment_status(**observed)})
        for pod in pods:
            self.api.put(pod)

    @property
    def service(self) -> dict[str, Any]:
        found = self.api.get("InferenceService", *KEY)
        assert found is not None
        return found

    def child(self, kind: str, component: str = "predictor") -> dict[str, Any]:
        found = self.api.get(kind, NAMESPACE, "torchserve" if kind == "Ingress" else f"torchserve-{component}")
        assert found is not None
        return found

    def condition(self, type_: str) -> dict[str, Any]:
        (found,) = [item for item in self.service["status"]["conditions"] if item["type"] == type_]
        return dict(found)


def cluster_with(service: dict[str, Any], *runtimes: dict[str, Any], config: OperatorConfig | None = None) -> Cluster:
    api = FakeKubeApi()
    api.put(service)
    return watched(api, Clock(EARLIER), *runtimes, config=config)


def watched(api: FakeKubeApi, clock: Clock, *runtimes: dict[str, Any], config: OperatorConfig | None = None) -> Cluster:
    """The API server with an operator that has just started."""
    cache, seconds = Cache(), Seconds()
    for runtime in runtimes:
        cache.put(runtime)
    reconciler = Reconciler(
        api=api, cache=cache, config=config or OperatorConfig(), now=clock, clock=seconds, home="isvc-system"
    )
    return Cluster(api, cache, clock, seconds, reconciler)
