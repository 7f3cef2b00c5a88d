"""Objects as an API server and the controllers of a cluster would have them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from isvc.limits import LOCAL_REPLICAS
from isvc_operator.limits import EVENT_BYTES
from isvc_operator.manifests import Manifest, digest_of, labels_of
from isvc_operator.observe.pods import is_ready
from isvc_operator.text import shortened

TEMPLATE_HASH = "pod-template-hash"
_RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
_ROLLED_OUT = "NewReplicaSetAvailable"
_NODE = "localhost"
_COUNTS = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas")


def stored(body: Manifest, before: Manifest | None, now: str) -> Manifest:
    """Return an object as it is stored; a change of its spec makes another generation of it."""
    metadata = body["metadata"]
    added: dict[str, Any]
    if before is None:
        name = "/".join((body["kind"], metadata.get("namespace") or "", metadata["name"], now))
        added = {"uid": str(uuid5(NAMESPACE_URL, name)), "creationTimestamp": now, "generation": 1}
    else:
        added = {name: before["metadata"][name] for name in ("uid", "creationTimestamp", "generation")}
        added["generation"] += body.get("spec") != before.get("spec")
    kept = {"status": before["status"]} if before and "status" in before else {}
    return {**body, "metadata": {**metadata, **added}, **kept}


def restarted(deployment: Manifest, at: str) -> Manifest:
    """Return the Deployment as ``kubectl rollout restart`` changes it: its pods are replaced."""
    template = deployment["spec"]["template"]
    metadata = template["metadata"]
    annotations = {**(metadata.get("annotations") or {}), _RESTARTED_AT: at}
    template = {**template, "metadata": {**metadata, "annotations": annotations}}
    return {**deployment, "spec": {**deployment["spec"], "template": template}}


def replicas_of(requested: int) -> int:
    """Return how many pods of a component run on this machine: at least one, and not too many."""
    return min(max(1, requested), LOCAL_REPLICAS)


def requested_replicas(deployment: Manifest, children: Sequence[Manifest]) -> int:
    """Return how many pods a Deployment asks for, or else the minimum of its autoscaler."""
    given = deployment["spec"].get("replicas")
    minimums = (
        child["spec"].get("minReplicas", child["spec"].get("minReplicaCount"))
        for child in children
        if child["spec"].get("scaleTargetRef", {}).get("name") == deployment["metadata"]["name"]
    )
    return given if given is not None else next(minimums, None) or 1


def template_hash(deployment: Manifest) -> str:
    """Return the label that tells the pods of one template from those of another."""
    return digest_of(deployment["spec"]["template"])[:10]


def new_pod(deployment: Manifest, number: int, now: str) -> Manifest:
    """Return a pod of the Deployment's newest template, without a status."""
    template, hash_ = deployment["spec"]["template"], template_hash(deployment)
    metadata = template["metadata"]
    replica_set = f"{deployment['metadata']['name']}-{hash_}"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{replica_set}-{number}",
            "namespace": deployment["metadata"]["namespace"],
            "labels": {**metadata["labels"], TEMPLATE_HASH: hash_},
            "annotations": metadata.get("annotations") or {},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": replica_set, "controller": True}
            ],
        },
        "spec": {**template["spec"], "nodeName": _NODE},
    }
    return stored(pod, None, now)


def deployment_status(deployment: Manifest, pods: Sequence[Manifest], now: str) -> dict[str, Any]:
    """Return the status of a Deployment that has these pods; those that are being deleted do not count."""
    wanted, generation = deployment["spec"]["replicas"], deployment["metadata"]["generation"]
    before: Mapping[str, Any] = deployment.get("status") or {}
    living = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
    updated = [pod for pod in living if labels_of(pod)[TEMPLATE_HASH] == template_hash(deployment)]
    ready = sum(map(is_ready, living))
    counts = dict(zip(_COUNTS, (len(living), len(updated), ready, ready, max(0, wanted - ready)), strict=True))
    known = {item["type"]: item for item in before.get("conditions", ())}
    if before.get("observedGeneration") != generation:
        known.pop("Progressing", None)
    moved = any(before.get(name) != count for name, count in counts.items())
    complete = len(updated) == len(living) and ready >= wanted
    enough = ready >= wanted - wanted // 4
    availability = ("True", "MinimumReplicasAvailable") if enough else ("False", "MinimumReplicasUnavailable")
    progress = _progress(known.get("Progressing"), deployment, moved=moved, complete=complete, now=now)
    conditions = [
        _condition("Available", *availability, now, known, now=now),
        _condition("Progressing", *progress, known, now=now),
    ]
    return {"observedGeneration": generation, **counts, "conditions": conditions}


def _progress(
    before: Mapping[str, Any] | None, deployment: Manifest, *, moved: bool, complete: bool, now: str
) -> tuple[str, str, str]:
    """Return the status of ``Progressing``, its reason, and when there was progress."""
    if complete or (before and before["reason"] == _ROLLED_OUT):
        return "True", _ROLLED_OUT, before["lastUpdateTime"] if before and before["reason"] == _ROLLED_OUT else now
    updated_at = now if moved or before is None else before["lastUpdateTime"]
    still = (datetime.fromisoformat(now) - datetime.fromisoformat(updated_at)).total_seconds()
    if still > deployment["spec"]["progressDeadlineSeconds"]:
        return "False", "ProgressDeadlineExceeded", updated_at
    return "True", "ReplicaSetUpdated", updated_at


def _condition(
    type_: str, status: str, reason: str, updated_at: str, known: Mapping[str, Any], *, now: str
) -> dict[str, Any]:
    same = type_ in known and known[type_]["status"] == status
    since = known[type_]["lastTransitionTime"] if same else now
    return {
        "type": type_, "status": status, "reason": reason, "lastUpdateTime": updated_at, "lastTransitionTime": since,
    }  # fmt: skip


def pod_event(pod: Manifest, type_: str, *, reason: str, message: str, now: str) -> Manifest:
    """Return the Event that a kubelet would write."""
    metadata = pod["metadata"]
    involved = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "namespace": metadata["namespace"]}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{metadata['name']}.", "namespace": metadata["namespace"]},
        "involvedObject": {**involved, "uid": metadata["uid"]},
        "type": type_,
        "reason": reason,
        "message": shortened(message, EVENT_BYTES),
        "source": {"component": "kubelet", "host": _NODE},
        "reportingComponent": "kubelet",
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
