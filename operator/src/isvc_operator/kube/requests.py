"""Requests to the API server as values, which can be tested without sending them, and the JSON of its responses.

A custom resource may be nested thousands of levels deep, and a decoder fails at 200: a single object would end the
watch of all of them. So levels deeper than any useful object has are cut off when a response is decoded. The object
that remains is still too deep to be accepted (``api.parsing``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from pydantic_core import from_json

from isvc_operator.api.kinds import ResourceKind, kind_named
from isvc_operator.api.names import FIELD_MANAGER
from isvc_operator.limits import LOG_READ_BYTES, NESTING
from isvc_operator.manifests import Manifest

APPLY_PATCH = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"
VERSION = "/version"
LEASES = "/apis/coordination.k8s.io/v1/"


@dataclass(frozen=True)
class ApiRequest:
    """One HTTP request to the API server; ``body`` is JSON data, and so is the response, unless it ``reads_text``.

    What the API server passes on to a pod has bytes as its body, and ``headers`` of its own. A response that
    ``begins_late`` has no head before there is something to say.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: Manifest | bytes | None = None
    content_type: str = "application/json"
    accept: str = "application/json, */*"
    reads_text: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    begins_late: bool = False


def path_of(kind: str, namespace: str, name: str = "") -> str:
    """Return the path of an object, or of the collection without ``name``; no ``namespace`` means the whole cluster."""
    return collection_path(kind_named(kind), namespace) + (f"/{_segment(name)}" if name else "")


def collection_path(kind: ResourceKind, namespace: str) -> str:
    """Return the path of a kind's objects; no ``namespace`` means the whole cluster."""
    scope = f"/namespaces/{_segment(namespace)}" if namespace else ""
    return f"{kind.api_path}{scope}/{kind.plural}"


def _segment(name: str) -> str:
    """Return a name as one part of a path, whatever it has: it may come from a service's spec or a command line."""
    quoted = quote(name, safe=":")
    return quoted.replace(".", "%252E") if name in (".", "..") else quoted  # a name that no object has


def _own_path(manifest: Manifest) -> str:
    metadata = manifest["metadata"]
    return path_of(manifest["kind"], metadata["namespace"], metadata["name"])


def get(kind: str, namespace: str, name: str) -> ApiRequest:
    return ApiRequest("GET", path_of(kind, namespace, name))


def discover(kind: str) -> ApiRequest:
    """Read which kinds the API version of a kind has; every service account may do that."""
    return ApiRequest("GET", kind_named(kind).api_path)


def review_own_access(verb: str, group: str, resource: str, namespace: str = "") -> ApiRequest:
    """Ask whether the caller may do this, without ``namespace`` in the whole cluster; everybody may ask.

    ``resource`` may have a subresource: ``pods/log``.
    """
    name, _, subresource = resource.partition("/")
    given = {"namespace": namespace, "subresource": subresource}
    attributes = {"verb": verb, "group": group, "resource": name, **{key: text for key, text in given.items() if text}}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    return ApiRequest("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body=review)


def _lease_path(namespace: str, name: str = "") -> str:
    return f"{LEASES}namespaces/{_segment(namespace)}/leases" + (f"/{_segment(name)}" if name else "")


def read_lease(namespace: str, name: str) -> ApiRequest:
    return ApiRequest("GET", _lease_path(namespace, name))


def create_lease(lease: Manifest) -> ApiRequest:
    return ApiRequest("POST", _lease_path(lease["metadata"]["namespace"]), body=lease)


def replace_lease(lease: Manifest) -> ApiRequest:
    """Replace a Lease, if it still has its resource version."""
    metadata = lease["metadata"]
    return ApiRequest("PUT", _lease_path(metadata["namespace"], metadata["name"]), body=lease)


def create(manifest: Manifest) -> ApiRequest:
    """Create an object that does not exist. As by an apply, a field that the API server does not know is refused.

    This costs the API server less than an apply, but the fields become ours by an update (``controller/adoption.py``).
    """
    path = path_of(manifest["kind"], manifest["metadata"]["namespace"])
    return ApiRequest("POST", path, (("fieldManager", FIELD_MANAGER), ("fieldValidation", "Strict")), manifest)


def apply(manifest: Manifest, *, force: bool, dry_run: bool = False) -> ApiRequest:
    """Apply server-side. Without ``force`` a field that another manager has set is a conflict."""
    query = (("fieldManager", FIELD_MANAGER), ("force", "true" if force else "false"))
    return ApiRequest(
        "PATCH", _own_path(manifest), query + ((("dryRun", "All"),) if dry_run else ()), manifest, APPLY_PATCH
    )


def delete(manifest: Manifest) -> ApiRequest:
    """Delete exactly this object: the uid protects another one that has its name by now."""
    body = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
        "preconditions": {"uid": manifest["metadata"]["uid"]},
    }
    return ApiRequest("DELETE", _own_path(manifest), body=body)


def patch_metadata(manifest: Manifest, metadata: Manifest) -> ApiRequest:
    """Replace fields of the object's metadata, if it still has the resource version of ``manifest``."""
    return _merge_patch(manifest, "", {"metadata": dict(metadata)})


def patch_status(service: Manifest, status: Manifest) -> ApiRequest:
    """Replace fields of a service's status, if it still has the resource version of ``service``.

    The status was derived from that version. Another service may have its name by now, and the API server does not
    check a uid here.
    """
    return _merge_patch(service, "/status", {"status": dict(status)})


def _merge_patch(manifest: Manifest, subresource: str, patch: Manifest) -> ApiRequest:
    metadata = {**patch.get("metadata", {}), "resourceVersion": manifest["metadata"]["resourceVersion"]}
    query = (("fieldManager", FIELD_MANAGER),)
    return ApiRequest("PATCH", _own_path(manifest) + subresource, query, {**patch, "metadata": metadata}, MERGE_PATCH)


def create_event(event: Manifest) -> ApiRequest:
    return ApiRequest("POST", path_of("Event", event["metadata"]["namespace"]), body=event)


def pod_events(namespace: str, uid: str) -> ApiRequest:
    query = (("fieldSelector", f"involvedObject.uid={uid}"), ("limit", "50"))
    return ApiRequest("GET", path_of("Event", namespace), query)


def pod_log(namespace: str, pod: str, container: str, *, previous: bool, lines: int) -> ApiRequest:
    """Read the last lines of a container's log; ``previous`` is the instance before the last restart."""
    query = (
        ("container", container),
        ("previous", "true" if previous else "false"),
        ("tailLines", str(lines)),
        ("limitBytes", str(LOG_READ_BYTES)),
    )
    return ApiRequest("GET", path_of("Pod", namespace, pod) + "/log", query, reads_text=True)


# One level more than an object may have, and an empty one inside it; a list of objects adds two levels.
_KEPT: Final = NESTING + 4
_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]]')


def decode(text: bytes | str) -> Any:
    """Return the value of a JSON text, without the levels that are too deep; raises ValueError.

    pydantic's decoder shares short strings between the objects of all texts, so that a cache of thousands of similar
    objects has each field's name once.
    """
    try:
        return from_json(text)
    except ValueError:  # too deep, or no JSON
        return from_json(shallow(text.encode() if isinstance(text, str) else text))


def shallow(text: bytes) -> bytes:
    """Return the JSON text without the levels that are too deep; the innermost objects and lists are empty then."""
    kept, depth, start = [], 0, 0
    for match in _TOKEN.finditer(text):
        if match[0] in (b"{", b"["):
            depth += 1
            if depth == _KEPT:
                kept.append(text[start : match.end()])
        elif match[0] in (b"}", b"]"):
            if depth == _KEPT:
                start = match.start()
            depth -= 1
    return b"".join([*kept, text[start:]])
