"""What kopf discovers: our kinds, all of them being installed. A missing CRD shows when a kind is listed."""

from __future__ import annotations

from isvc_operator.api.kinds import KINDS, ResourceKind
from isvc_operator.manifests import Manifest


def discovered(path: str) -> Manifest:
    """Return the response to one of the requests by which a client discovers the kinds of an API server."""
    if path == "/api":
        return {"versions": ["v1"]}
    if path == "/apis":
        found: dict[str, Manifest] = {}
        for group, version in dict.fromkeys((kind.group, kind.version) for kind in KINDS if kind.group):
            known = found.setdefault(group, {"name": group, "versions": [], "preferredVersion": {"version": version}})
            known["versions"].append({"version": version})
        return {"groups": [*found.values()]}
    return {"resources": [_resource(kind) for kind in KINDS if kind.api_path == path]}


def _resource(kind: ResourceKind) -> Manifest:
    return {
        "name": kind.plural,
        "singularName": kind.name.lower(),
        "kind": kind.name,
        "namespaced": kind.namespaced,
        "verbs": ["list", "watch", "patch"],
    }
