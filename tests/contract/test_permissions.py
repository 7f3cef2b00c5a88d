"""The shipped ClusterRole allows what the operator asks of the API server, and nothing that it does not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from isvc_operator.handlers.watches import CHILDREN, SERVICES, SHARED
from isvc_operator.kube import requests
from isvc_operator.kube.requests import ApiRequest
from tests.support.builders import a_child

RBAC = Path(__file__).parents[2] / "manifests" / "base" / "rbac.yaml"

Permission = tuple[str, str, str]  # API group, resource, verb

WATCHED = {(group, plural, verb) for group, _, plural in (SERVICES, *SHARED, *CHILDREN) for verb in ("list", "watch")}

CHILD_KINDS = ("Deployment", "Service", "Ingress")
READ_BY_NAME = ("ServiceAccount", "Secret", "ConfigMap")
CERTIFICATES = {"kind": "ConfigMap", "metadata": {"name": "global-ca-bundle", "namespace": "ns"}}

AUTOSCALER = {"kind": "HorizontalPodAutoscaler", "metadata": {"name": "name", "namespace": "ns", "uid": "u"}}
SERVICE = {"kind": "InferenceService", "metadata": {"name": "name", "namespace": "ns", "resourceVersion": "1"}}


def granted() -> set[Permission]:
    (role,) = [item for item in yaml.safe_load_all(RBAC.read_text()) if item["kind"] == "ClusterRole"]
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/[^/]+/namespaces/[^/]+/(?P<resource>[^/]+)"
    r"(?:/(?P<name>[^/]+)(?P<subresource>/[^/]+)?)?"
)


def needed_by(request: ApiRequest) -> set[Permission]:
    """Server-side apply needs `create` too: it makes what is not there."""
    target = PATH.fullmatch(request.path)
    assert target is not None
    read = "get" if target["name"] else "list"
    verbs = {"GET": {read}, "POST": {"create"}, "DELETE": {"delete"}, "PATCH": {"patch"}}[request.method]
    if request.content_type == requests.APPLY_PATCH:
        verbs = {"patch", "create"}
    return {(target["group"] or "", target["resource"] + (target["subresource"] or ""), verb) for verb in verbs}


def child(kind: str) -> dict[str, Any]:
    body = a_child(kind)
    return {**body, "metadata": {**body["metadata"], "uid": "u", "resourceVersion": "1"}}


REQUESTS = {
    **{f"apply a {kind}": requests.apply(child(kind), force=True) for kind in CHILD_KINDS},
    **{f"delete a {kind}": requests.delete(child(kind)) for kind in CHILD_KINDS},
    **{f"read a {kind}": requests.get(kind, "ns", "name") for kind in (*CHILD_KINDS, AUTOSCALER["kind"])},
    **{f"hand over the fields of a {kind}": requests.patch_metadata(child(kind), {}) for kind in CHILD_KINDS},
    "delete an autoscaler": requests.delete(AUTOSCALER),
    "take a finalizer away": requests.patch_metadata(SERVICE, {"finalizers": []}),
    "write a status": requests.patch_status(SERVICE, {}),
    "look for what was deleted": requests.list_metadata("Pod", "ns"),
    "record an Event": requests.create_event({"metadata": {"namespace": "ns"}}),
    "read a log": requests.pod_log("ns", "pod", "container", previous=False, lines=1),
    "read a pod's Events": requests.pod_events("ns", "uid"),
    **{f"read a {kind}": requests.get(kind, "ns", "name") for kind in READ_BY_NAME},
    "bring the certificates to a namespace": requests.apply(CERTIFICATES, force=True),
}


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS.keys())
def test_the_operator_may(request_: ApiRequest) -> None:
    assert needed_by(request_) <= granted()


def test_the_operator_may_watch_what_it_watches() -> None:
    assert granted() >= WATCHED


def test_the_operator_may_change_nothing_else() -> None:
    asked = set().union(*map(needed_by, REQUESTS.values()))
    # Not a request of its own: blockOwnerDeletion in an owner reference is checked against it.
    checked = {("serving.kserve.io", "inferenceservices/finalizers", "update")}

    changing = {permission for permission in granted() if permission[2] not in ("get", "list", "watch")}

    assert changing == {permission for permission in asked if permission[2] not in ("get", "list")} | checked


def test_secrets_and_what_leads_to_them_are_read_by_name_only() -> None:
    verbs = {verb for _, resource, verb in granted() if resource in ("secrets", "serviceaccounts")}

    assert verbs == {"get"}


def test_nothing_is_granted_by_a_star() -> None:
    assert not any("*" in permission for permission in granted())
