"""Puts a service with its objects, statuses included, on a real API server."""

from __future__ import annotations

from typing import Any

from isvc.view.source import Related
from isvc_operator.kube.requests import MERGE_PATCH, path_of
from isvc_operator.manifests import name_of
from tests.support.apiserver import ApiServer

_APPLY = "application/apply-patch+yaml"


def store(server: ApiServer, namespace: str, related: Related) -> None:
    """Store the service, its children, its pods and its Events; their statuses are those that they have there."""
    uids = {name_of(related.service): _store(server, namespace, related.service)}
    for child in related.children:
        _store(server, namespace, child)
    for pod in related.pods:
        uids[name_of(pod)] = _store(server, namespace, _startable(pod))
    for event in related.events:
        involved = {**event["involvedObject"], "namespace": namespace}
        involved["uid"] = uids.get(involved["name"], "")
        body = {**event, "metadata": {"name": event["metadata"]["name"].lower(), "namespace": namespace}}
        server.send("POST", path_of("Event", namespace), {**body, "involvedObject": involved})


def _store(server: ApiServer, namespace: str, body: Any) -> str:
    """Return the uid of the object that is stored."""
    path = path_of(body["kind"], namespace, name_of(body))
    metadata = {"name": name_of(body), "namespace": namespace, "labels": body["metadata"].get("labels", {})}
    spec = {"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": metadata, "spec": body["spec"]}
    stored = server.send("PATCH", f"{path}?fieldManager=test&force=true", spec, content=_APPLY)
    if status := body.get("status"):
        if body["kind"] == "Deployment":
            status = {**status, "readyReplicas": status["availableReplicas"]}
        stored = server.send("PATCH", f"{path}/status", {"status": status}, content=MERGE_PATCH)
    uid: str = stored["metadata"]["uid"]
    return uid


def _startable(pod: Any) -> Any:
    """Return the pod with containers, as the API server wants them; their statuses name an image."""
    status = {name: _imaged(value) if name.endswith("Statuses") else value for name, value in pod["status"].items()}
    names = [item["name"] for item in status.get("containerStatuses") or ()] or ["kserve-container"]
    init = [item["name"] for item in status.get("initContainerStatuses") or ()]
    spec = {
        **pod["spec"],
        "containers": [{"name": name, "image": "i:1"} for name in names],
        "initContainers": [{"name": name, "image": "i:1"} for name in init],
    }
    return {**pod, "spec": spec, "status": status}


def _imaged(statuses: Any) -> Any:
    return [{**item, "image": "i:1", "imageID": "i"} for item in statuses]
