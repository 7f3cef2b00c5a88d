"""What an audit log shows of permissions: needed, refused, and compared with roles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.permissions import (
    ACCOUNT,
    NEVER_LOGGED,
    Permission,
    granted_by,
    main,
    needed_for,
    of_account,
    of_agents,
    refused,
    shipped_roles,
)

# Recorded from a real API server: one service, from its creation to Ready, by an operator with a Role alone.
RECORDED = Path(__file__).parent / "recorded" / "one-namespace-audit.jsonl"
OPERATOR = "system:serviceaccount:isvc-system:isvc-operator"


def an_event(
    verb: str, resource: str = "", *, group: str = "", user: str = OPERATOR, code: int = 200, **target: str
) -> dict[str, Any]:
    reference = {"resource": resource, **({"apiGroup": group} if group else {}), **target}
    return {
        "verb": verb,
        "requestURI": f"/{resource or 'healthz'}",
        "user": {"username": user},
        "responseStatus": {"code": code},
        **({"objectRef": reference} if resource else {}),
    }


EVENTS: dict[str, tuple[dict[str, Any], set[Permission]]] = {
    "a list": (an_event("list", "pods"), {("", "pods", "list")}),
    "a log": (an_event("get", "pods", subresource="log"), {("", "pods/log", "get")}),
    "an apply": (an_event("patch", "deployments", group="apps"), {("apps", "deployments", "patch")}),
    "an apply that creates": (
        an_event("patch", "services", code=201),
        {("", "services", "patch"), ("", "services", "create")},
    ),
    "a path that is not a resource": (an_event("get"), set()),
}


@pytest.mark.parametrize(("event", "needed"), EVENTS.values(), ids=EVENTS)
def test_a_request_needs(event: dict[str, Any], needed: set[Permission]) -> None:
    assert needed_for([event]) == needed


def test_events_are_selected_by_the_end_of_a_user_or_the_start_of_an_agent() -> None:
    ours, another = an_event("list", "pods"), an_event("list", "pods", user="admin")
    watch = {**another, "userAgent": "isvc-watches"}

    assert of_account(ACCOUNT, [ours, another]) == [ours]
    assert of_agents(["isvc-operator", "isvc-watches"], [ours, another, watch]) == [watch]


def test_refused_requests_are_named() -> None:
    events = [an_event("list", "secrets", code=403), an_event("list", "pods"), an_event("get", "nodes", code=404)]

    assert refused(events) == ["list /secrets"]


def test_a_namespace_that_is_being_deleted_refuses_nobody_for_a_lack_of_permissions() -> None:
    event = an_event("create", "events", code=403)
    event["responseStatus"]["details"] = {"causes": [{"reason": "NamespaceTerminating"}]}

    assert refused([event]) == []


def test_a_recorded_run_of_one_service_needs_nothing_else_and_was_refused_nothing() -> None:
    events = of_account(ACCOUNT, map(json.loads, RECORDED.read_text().splitlines()))
    in_namespaces = [role for role in shipped_roles() if role["metadata"]["name"] != "isvc-operator-cluster"]

    assert refused(events) == []
    used = needed_for(events)
    assert {("serving.kserve.io", "inferenceservices", "watch"), ("apps", "deployments", "create")} < used
    assert {permission for permission in used if permission[1] != "selfsubjectaccessreviews"} < granted_by(
        *in_namespaces
    )


def whole_use() -> list[dict[str, Any]]:
    return [
        an_event(verb, resource.partition("/")[0], group=group, subresource=resource.partition("/")[2])
        for group, resource, verb in granted_by(*shipped_roles()) - NEVER_LOGGED
    ]


def test_a_log_that_uses_every_permission_leaves_nothing_to_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([write(tmp_path, whole_use())]) == 0
    assert capsys.readouterr().out == ""


def test_what_is_missing_unused_and_refused_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    others = [event for event in whole_use() if event["objectRef"]["resource"] != "secrets"]

    assert main([write(tmp_path, [*others, an_event("list", "nodes", code=403)])]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "missing:  nodes list",
        "unused:  secrets get",
        "refused: list /nodes",
    ]


def write(folder: Path, events: list[dict[str, Any]]) -> str:
    path = folder / "audit.log"
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return str(path)
