"""Requests to the API server as values: what is sent can be tested without sending it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from isvc_operator.api.names import FIELD_MANAGER, GROUP, LABEL_SERVICE
from isvc_operator.limits import LOG_READ_BYTES

Manifest = Mapping[str, Any]

# kind → (path of the API version, plural)
_RESOURCES: dict[str, tuple[str, str]] = {
    "Deployment": ("/apis/apps/v1", "deployments"),
    "Service": ("/api/v1", "services"),
    "HorizontalPodAutoscaler": ("/apis/autoscaling/v2", "horizontalpodautoscalers"),
    "Ingress": ("/apis/networking.k8s.io/v1", "ingresses"),
    "Event": ("/api/v1", "events"),
    "Pod": ("/api/v1", "pods"),
    "ServiceAccount": ("/api/v1", "serviceaccounts"),
    "Secret": ("/api/v1", "secrets"),
    "ConfigMap": ("/api/v1", "configmaps"),
    "InferenceService": (f"/apis/{GROUP}/v1beta1", "inferenceservices"),
    "ServingRuntime": (f"/apis/{GROUP}/v1alpha1", "servingruntimes"),
    "ClusterServingRuntime": (f"/apis/{GROUP}/v1alpha1", "clusterservingruntimes"),
    "ClusterStorageContainer": (f"/apis/{GROUP}/v1alpha1", "clusterstoragecontainers"),
}
# Of these only those are of interest that carry a service's label.
_LABELLED = ("Deployment", "Service", "Ingress", "Pod")

APPLY_PATCH = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"
_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


@dataclass(frozen=True)
class ApiRequest:
    """One HTTP request to the API server; ``body`` is JSON data."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: Manifest | None = None
    content_type: str = "application/json"
    accept: str = "application/json, */*"


def path_of(kind: str, namespace: str, name: str = "") -> str:
    """Path of one object, or of its collection where ``name`` is empty; no ``namespace`` means the whole cluster."""
    version, plural = _RESOURCES[kind]
    where = f"/namespaces/{namespace}" if namespace else ""
    return f"{version}{where}/{plural}" + (f"/{name}" if name else "")


def _own_path(manifest: Manifest) -> str:
    metadata = manifest["metadata"]
    return path_of(manifest["kind"], metadata["namespace"], metadata["name"])


def get(kind: str, namespace: str, name: str) -> ApiRequest:
    """One object by its name."""
    return ApiRequest("GET", path_of(kind, namespace, name))


def list_metadata(kind: str, namespace: str, page: str = "") -> ApiRequest:
    """The metadata of what is watched of a kind, in pages; ``page`` is what the answer before gave to continue."""
    query = [("limit", "500")]
    if kind in _LABELLED:
        query.append(("labelSelector", LABEL_SERVICE))
    if page:
        query.append(("continue", page))
    return ApiRequest("GET", path_of(kind, namespace), tuple(query), accept=_METADATA_ONLY)


def apply(manifest: Manifest, *, force: bool) -> ApiRequest:
    """Server-side apply. Without ``force`` a field that another manager set makes it a conflict."""
    query = (("fieldManager", FIELD_MANAGER), ("force", "true" if force else "false"))
    return ApiRequest("PATCH", _own_path(manifest), query, manifest, APPLY_PATCH)


def delete(manifest: Manifest) -> ApiRequest:
    """Delete exactly this object: the uid keeps a namesake that came later alive."""
    body = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
        "preconditions": {"uid": manifest["metadata"]["uid"]},
    }
    return ApiRequest("DELETE", _own_path(manifest), body=body)


def patch_metadata(manifest: Manifest, metadata: Manifest) -> ApiRequest:
    """Replace fields of the object's metadata, if the object is still at the version that ``manifest`` has."""
    return _merge_patch(manifest, "", {"metadata": dict(metadata)})


def patch_status(service: Manifest, status: Manifest) -> ApiRequest:
    """Replace a service's status fields, if the service is still at the version that ``service`` has.

    A status is true of the service from which it was derived. Another one may have its name by now; a uid would not
    tell, as the API server does not look at it here.
    """
    return _merge_patch(service, "/status", {"status": dict(status)})


def _merge_patch(manifest: Manifest, subresource: str, patch: Manifest) -> ApiRequest:
    metadata = {**patch.get("metadata", {}), "resourceVersion": manifest["metadata"]["resourceVersion"]}
    query = (("fieldManager", FIELD_MANAGER),)
    return ApiRequest("PATCH", _own_path(manifest) + subresource, query, {**patch, "metadata": metadata}, MERGE_PATCH)


def create_event(event: Manifest) -> ApiRequest:
    """Record an Event in its namespace."""
    return ApiRequest("POST", path_of("Event", event["metadata"]["namespace"]), body=event)


def pod_events(namespace: str, uid: str) -> ApiRequest:
    """What was recorded about one pod."""
    query = (("fieldSelector", f"involvedObject.uid={uid}"), ("limit", "50"))
    return ApiRequest("GET", path_of("Event", namespace), query)


def pod_log(namespace: str, pod: str, container: str, *, previous: bool, lines: int) -> ApiRequest:
    """Last lines of a container's log; ``previous`` asks for the instance before the last restart."""
    query = (
        ("container", container),
        ("previous", "true" if previous else "false"),
        ("tailLines", str(lines)),
        ("limitBytes", str(LOG_READ_BYTES)),
    )
    return ApiRequest("GET", path_of("Pod", namespace, pod) + "/log", query)
