"""``python -m tests.support.fake_kserve_manager KUBECONFIG``: the part of KServe's manager that a change-over meets.

It elects a leader as client-go does: it takes a lease that nobody holds, and ends when somebody else has it. As leader
it makes every Deployment of a service again, as KServe's controller does, and reports the service as Ready. The real
manager is in ``tests/bench/migrate_suite.py``.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from isvc.migrate.names import KSERVE_LEASE, KSERVE_NAMESPACE
from isvc.migrate.objects import LiveObjects, path, path_to
from isvc_operator.kube.client import connect
from isvc_operator.kube.errors import KubeError
from isvc_operator.manifests import Manifest, controller_of

_LEASES = path("coordination.k8s.io/v1", "leases", KSERVE_NAMESPACE)
_LEASE = f"{_LEASES}/{KSERVE_LEASE}"
_ME = "kserve-controller-manager_1"
_IMAGE = "kserve/server:v0.20.0"
# What KServe's controller does not set is gone when it updates a Deployment.
_NOT_KSERVES = {"paused": None, "minReadySeconds": None}


async def main(kubeconfig: str) -> None:
    """Run until somebody else holds the lease."""
    async with connect(kubeconfig) as api:
        objects = LiveObjects(api)
        while True:
            lease = await objects.get(_LEASE)
            holder = (lease or {"spec": {}})["spec"].get("holderIdentity")
            if lease is None:
                metadata = {"name": KSERVE_LEASE, "namespace": KSERVE_NAMESPACE}
                await objects.create(_LEASES, {"metadata": metadata, "spec": {"holderIdentity": _ME}})
            elif not holder:
                await objects.merge(_LEASE, {"spec": {"holderIdentity": _ME}})
            elif holder == _ME:
                await _reconcile(objects)
            elif _led:
                return
            _led.extend([True] if holder == _ME else [])
            await asyncio.sleep(0.2)


_led: list[bool] = []


async def _reconcile(objects: LiveObjects) -> None:
    services = await objects.items("serving.kserve.io/v1beta1", "inferenceservices")
    deployments = await objects.items("apps/v1", "deployments")
    for service in services:
        own = [item for item in deployments if controller_of(item).get("uid") == service["metadata"]["uid"]]
        for item in own:
            await _make(objects, item)
        if own and all(item["status"].get("availableReplicas") for item in own):
            conditions = [{"type": kind, "status": "True"} for kind in ("PredictorReady", "IngressReady", "Ready")]
            status = {"conditions": conditions, "deploymentMode": "Standard", "observedGeneration": 7}
            if (service.get("status") or {}).get("conditions") != conditions:
                await objects.merge(f"{path_to(service)}/status", {"status": status})


async def _make(objects: LiveObjects, item: Manifest) -> None:
    containers = item["spec"]["template"]["spec"]["containers"]
    annotations = item["metadata"].get("annotations") or {}
    ours = {name: None for name in annotations if name.startswith("isvc-operator.io/")}
    if containers[0]["image"] == _IMAGE and not ours:
        return
    template: dict[str, Any] = {"spec": {"initContainers": None, "volumes": None, "containers": the_containers()}}
    patch = {"metadata": {"annotations": ours}, "spec": {**_NOT_KSERVES, "template": template}}
    try:
        await objects.merge(path_to(item), patch)
    except KubeError:
        return


def the_containers() -> list[dict[str, Any]]:
    """The containers of every Deployment of this manager."""
    return [{"name": "kserve-container", "image": _IMAGE, "ports": [{"containerPort": 8080, "protocol": "TCP"}]}]


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
