"""In place of the Deployment controller on a bare API server: every rollout is finished."""

from __future__ import annotations

from isvc_operator.kube.requests import MERGE_PATCH, path_of
from tests.support.apiserver import ApiServer
from tests.support.namespace import Namespace


def finish_rollouts(server: ApiServer, namespace: Namespace) -> int:
    """Finish the rollouts that the namespace's Deployments await; returns their number."""
    deployments = server.send("GET", path_of("Deployment", namespace.name))["items"]
    rollouts = [
        item for item in deployments if item["status"].get("observedGeneration") != item["metadata"]["generation"]
    ]
    for item in rollouts:
        counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
        status = dict.fromkeys(counts, item["spec"]["replicas"])
        status["observedGeneration"] = item["metadata"]["generation"]
        path = path_of("Deployment", namespace.name, item["metadata"]["name"])
        server.send("PATCH", f"{path}/status", {"status": status}, content=MERGE_PATCH)
    return len(rollouts)
