"""What differs between two versions of an object, and the patch that kubectl would send."""

from __future__ import annotations

from typing import Any

import pytest

from isvc.diff.changes import Action, Actor, Change, change_of, fields_changed, merged
from isvc_operator.manifests import merge_patch
from isvc_operator.plan.diff import differences


def service(replicas: int = 1, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Thing",
        "metadata": {"name": "bert", "namespace": "team", **metadata},
        "spec": {"replicas": replicas},
    }


def test_what_differs_is_a_unified_diff_without_what_nobody_writes() -> None:
    before = {**service(uid="1", resourceVersion="7", generation=1, managedFields=[]), "status": {"ready": 1}}
    after = service(2, uid="1", annotations={"isvc-operator.io/rendered": "abc", "mine": "yes"})

    assert change_of(Actor.APPLY, before, after) == Change(
        Actor.APPLY,
        Action.UPDATE,
        "Thing",
        "team",
        "bert",
        (
            "--- Thing team/bert (now)",
            "+++ Thing team/bert (after apply)",
            "@@ -1,7 +1,9 @@",
            " apiVersion: v1",
            " kind: Thing",
            " metadata:",
            "+  annotations:",
            "+    mine: 'yes'",
            "   name: bert",
            "   namespace: team",
            " spec:",
            "-  replicas: 1",
            "+  replicas: 2",
        ),
    )


def test_what_only_controllers_note_is_no_difference() -> None:
    noted = service(annotations={"isvc-operator.io/rendered": "abc", "deployment.kubernetes.io/revision": "2"})

    assert change_of(Actor.OPERATOR, service(), noted) is None
    assert change_of(Actor.OPERATOR, None, None) is None


@pytest.mark.parametrize(
    ("before", "after", "action", "heads"),
    [
        (None, service(), Action.CREATE, ("--- /dev/null", "+++ Thing team/bert (after operator)")),
        (service(), None, Action.DELETE, ("--- Thing team/bert (now)", "+++ /dev/null")),
    ],
    ids=["created", "deleted"],
)
def test_an_object_that_comes_or_goes(
    before: dict[str, Any] | None, after: dict[str, Any] | None, action: Action, heads: tuple[str, ...]
) -> None:
    change = change_of(Actor.OPERATOR, before, after)

    assert change
    assert (change.action, change.lines[:2]) == (action, heads)


def test_where_only_the_fields_are_known_they_are_named() -> None:
    wanted = service(2, annotations={"isvc-operator.io/rendered": "abc"})
    change = fields_changed(Actor.OPERATOR, service(annotations={}), differences(service(annotations={}), wanted))

    assert change
    assert change.lines == ("! spec.replicas (now 1)",)
    noted = service(annotations={"isvc-operator.io/rendered": "abc"})
    assert fields_changed(Actor.OPERATOR, service(), differences(service(annotations={}), noted)) is None


@pytest.mark.parametrize(
    ("applied", "wanted", "live", "patch"),
    [
        ({}, {"a": 1}, {"a": 1, "b": 2}, {}),
        ({}, {"a": 2}, {"a": 1}, {"a": 2}),
        ({"a": 1, "b": 2}, {"a": 1}, {"a": 1, "b": 2}, {"b": None}),
        ({"b": 2}, {}, {}, {}),
        ({"s": {"x": 1}}, {"s": {"y": 2}}, {"s": {"x": 1, "z": 3}}, {"s": {"y": 2, "x": None}}),
        ({}, {"l": [1]}, {"l": [1, 2]}, {"l": [1]}),
    ],
    ids=["nothing", "changed", "removed", "gone already", "inside", "a list is replaced"],
)
def test_the_patch_is_the_one_that_kubectl_sends(
    applied: dict[str, Any], wanted: dict[str, Any], live: dict[str, Any], patch: dict[str, Any]
) -> None:
    assert merge_patch(applied, wanted, live) == patch


def test_a_patch_is_merged_as_the_api_server_does() -> None:
    live = {"a": 1, "s": {"x": 1, "y": 2}, "l": [1, 2]}

    assert merged(live, {"a": None, "s": {"x": None, "z": 3}, "l": [], "new": {"b": 1, "c": None}}) == {
        "s": {"y": 2, "z": 3},
        "l": [],
        "new": {"b": 1},
    }
