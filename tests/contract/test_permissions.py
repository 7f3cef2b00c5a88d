"""The shipped ClusterRoles allow what the operator requests for each kind of the table, and nothing else."""

from __future__ import annotations

import re
from typing import Any

import yaml

from isvc_operator.api.kinds import KINDS, ResourceKind, Role, with_role
from isvc_operator.api.names import LEASE
from isvc_operator.kube import requests
from isvc_operator.kube.leader import new_lease
from isvc_operator.kube.requests import ApiRequest, path_of
from tests.support.builders import a_child
from tests.support.permissions import NEVER_LOGGED, RBAC, Permission, granted_by, shipped_roles

CERTIFICATES = {"kind": "ConfigMap", "metadata": {"name": "global-ca-bundle", "namespace": "ns"}}
SERVICE = {"kind": "InferenceService", "metadata": {"name": "name", "namespace": "ns", "resourceVersion": "1"}}


def granted() -> set[Permission]:
    return granted_by(*shipped_roles())


PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/[^/]+/namespaces/[^/]+/(?P<resource>[^/]+)"
    r"(?:/(?P<name>[^/]+)(?P<subresource>/[^/]+)?)?"
)


def needed_by(request: ApiRequest) -> set[Permission]:
    """Server-side apply needs `create` as well: it creates a missing object."""
    target = PATH.fullmatch(request.path)
    assert target is not None
    read = "get" if target["name"] else "list"
    verbs = {"GET": {read}, "POST": {"create"}, "PUT": {"update"}, "DELETE": {"delete"}, "PATCH": {"patch"}}[
        request.method
    ]
    if request.content_type == requests.APPLY_PATCH:
        verbs = {"patch", "create"}
    return {(target["group"] or "", target["resource"] + (target["subresource"] or ""), verb) for verb in verbs}


def an_object(kind: ResourceKind) -> dict[str, Any]:
    body = a_child(kind.name)
    return {**body, "metadata": {**body["metadata"], "uid": "u", "resourceVersion": "1"}}


def requests_of(kind: ResourceKind) -> dict[str, ApiRequest]:
    """What the operator requests of any kind with this role."""
    body = an_object(kind)
    read = {f"read a {kind.name}": requests.get(kind.name, "ns", "name")}
    delete = {f"delete a {kind.name}": requests.delete(body)}
    listed = {f"list each {kind.name}": ApiRequest("GET", path_of(kind.name, "ns"))} if kind.watched else {}
    match kind.role:
        case Role.CHILD:
            create = {f"create a {kind.name}": requests.create(body)}
            apply = {f"apply a {kind.name}": requests.apply(body, force=True)}
            adopt = {f"adopt the fields of a {kind.name}": requests.patch_metadata(body, {})}
            return {**read, **delete, **create, **apply, **adopt, **listed}
        case Role.REFERENCE:
            return read
        case _:
            return listed


REQUESTS = {
    **{what: request for kind in KINDS for what, request in requests_of(kind).items()},
    "release a finalizer": requests.patch_metadata(SERVICE, {"finalizers": []}),
    "write a status": requests.patch_status(SERVICE, {}),
    "record an Event": requests.create_event({"metadata": {"namespace": "ns"}}),
    "read a log": requests.pod_log("ns", "pod", "container", previous=False, lines=1),
    "read a pod's Events": requests.pod_events("ns", "uid"),
    "copy the certificates to a namespace": requests.apply(CERTIFICATES, force=True),
}


def test_the_operator_may_do_what_it_requests_and_watches_and_nothing_else() -> None:
    asked = set().union(*map(needed_by, REQUESTS.values()))
    watched = {(kind.group, kind.plural) for kind in KINDS if kind.watched or kind.role is Role.DISCOVERY}

    assert granted() == asked | {(*it, verb) for it in watched for verb in ("list", "watch")} | NEVER_LOGGED


def test_several_replicas_may_hold_their_lease_and_nothing_else() -> None:
    lease = new_lease("ns", LEASE)
    asked = (requests.read_lease("ns", LEASE), requests.create_lease(lease), requests.replace_lease(lease))
    role, _ = yaml.safe_load_all((RBAC.parents[1] / "ha" / "lease-role.yaml").read_text())
    named = {tuple(rule["verbs"]): rule.get("resourceNames") for rule in role["rules"]}

    assert granted_by(role) == set().union(*map(needed_by, asked))
    assert named == {("create",): None, ("get", "update"): [LEASE]}


def test_what_lies_outside_of_namespaces_is_in_a_role_of_its_own() -> None:
    cluster_scoped = {kind.plural for kind in KINDS if not kind.namespaced} | {
        "customresourcedefinitions",
        "namespaces",
    }

    with_some = {
        role["metadata"]["name"]: {resource for _, resource, _ in granted_by(role)} & cluster_scoped
        for role in shipped_roles()
    }

    assert with_some == {
        "isvc-operator": set(),
        "isvc-operator-credentials": set(),
        "isvc-operator-cluster": cluster_scoped,
    }


def test_secrets_are_read_by_a_role_of_its_own() -> None:
    (role,) = [role for role in shipped_roles() if role["metadata"]["name"] == "isvc-operator-credentials"]

    assert granted_by(role) == {("", "serviceaccounts", "get"), ("", "secrets", "get")}


def test_secrets_and_what_leads_to_them_are_read_by_name_only() -> None:
    named = {kind.plural for kind in with_role(Role.REFERENCE)} - {"configmaps"}
    verbs = {verb for _, resource, verb in granted() if resource in named}

    assert verbs == {"get"}


def test_nothing_is_granted_by_a_star() -> None:
    assert not any("*" in permission for permission in granted())
