"""Which pods are kept because only the operator has changed, and what asks for the template of the newer version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from isvc_operator.api.names import (
    ANNOTATION_INPUTS,
    ANNOTATION_OWN_INPUTS,
    ANNOTATION_RENDERED,
    ANNOTATION_SHARED_INPUTS,
    ANNOTATION_TEMPLATE,
    ANNOTATION_VERSION,
    ANNOTATION_WAITING,
)
from isvc_operator.manifests import Manifest, annotations_of
from isvc_operator.observe.status import WaitingTemplate
from isvc_operator.plan.changes import plan_changes, template_digest
from isvc_operator.plan.kept_pods import RenderOrigin, Upgrade, plan_upgrade, without_records
from isvc_operator.resolve.upgrades import InputDigests
from tests.support.builders import SERVICE_UID, a_deployment_status, a_runtime, a_service, the_children

UP = a_deployment_status()
NEVER_UP = a_deployment_status(available=0, progressing="ReplicaSetUpdated")
INPUTS = InputDigests(
    {"predictor": "inputs", "transformer": "inputs"}, {"predictor": "own", "transformer": "own"}, "shared"
)
OLD = RenderOrigin(INPUTS, "0.1.0")
NEW = replace(OLD, version="0.2.0")
NEWER = replace(OLD, version="0.3.0")
OTHER = {"predictor": "others", "transformer": "others"}
# This version, after a change of the service, and after one of something that it shares with others.
EDITED = replace(NEW, inputs=replace(INPUTS, every=OTHER, own=OTHER))
SHARED = replace(NEW, inputs=replace(INPUTS, every=OTHER))
AUTO = replace(NEW, automatic=True)
WAITS = {"predictor": WaitingTemplate("0.1.0", "0.2.0", ("spec.containers[kserve-container].args",))}


def rendered(args: str = "--old", **fields: Any) -> list[Manifest]:
    """The children of a service as a version of the operator renders them, which the argument stands for."""
    runtime = a_runtime(container={"ports": [{"containerPort": fields.pop("port", 8080)}]})
    return list(the_children(a_service(model={"args": [args]}, **fields), runtime).values())


def with_transformer(args: str, image: str = "front") -> list[Manifest]:
    """Return the children of a predictor and of a transformer: `the_children` has one of each kind."""
    front = [
        {**child, "metadata": {**child["metadata"], "name": "front", "labels": {"component": "transformer"}}}
        for child in rendered(image)[:2]
    ]
    return [*rendered(args), *front]


def applied(children: Sequence[Manifest], status: Manifest = UP, **spec: Any) -> list[Manifest]:
    """The children as the API server holds them: with a default, and a status."""
    held = []
    for change in plan_changes(children, [], SERVICE_UID):
        child = change.manifest
        if child["kind"] == "Deployment":
            template = child["spec"]["template"]
            pod = {**template["spec"], "restartPolicy": "Always"}
            child = {
                **child,
                "metadata": {**child["metadata"], "uid": "deployment"},
                "spec": {**child["spec"], **spec, "template": {**template, "spec": pod}},
                "status": status,
            }
        held.append(child)
    return held


def reconciled(children: Sequence[Manifest], before: Sequence[Manifest], origin: RenderOrigin) -> list[Manifest]:
    """What the API server holds after a reconcile."""
    return applied(plan_upgrade(children, before, origin).children)


THERE = reconciled(rendered(), [], OLD)


def without(children: Sequence[Manifest], *annotations: str) -> list[Manifest]:
    """The children as an operator left them that does not know these annotations."""

    def of(child: Manifest) -> dict[str, str]:
        return {name: value for name, value in annotations_of(child).items() if name not in annotations}

    return [{**child, "metadata": {**child["metadata"], "annotations": of(child)}} for child in children]


def by_release_010(children: Sequence[Manifest]) -> list[Manifest]:
    """The children as version 0.1.0 has applied them: it recorded a digest of each child and nothing else."""
    return without(applied(children), ANNOTATION_TEMPLATE)


def test_the_template_of_another_version_waits_and_the_pods_stay() -> None:
    planned = plan_upgrade(rendered("--new", predictor={"minReplicas": 1}), THERE, NEW)

    deployment = planned.children[0]
    assert planned.waiting == WAITS
    assert deployment["spec"] == {**rendered()[0]["spec"], "replicas": 1, "template": THERE[0]["spec"]["template"]}
    assert annotations_of(deployment) == {
        **annotations_of(rendered()[0]),
        ANNOTATION_INPUTS: "inputs",
        ANNOTATION_OWN_INPUTS: "own",
        ANNOTATION_SHARED_INPUTS: "shared",
        ANNOTATION_TEMPLATE: template_digest(rendered()[0]),
        ANNOTATION_VERSION: "0.1.0",
        ANNOTATION_WAITING: f"0.2.0/{template_digest(rendered('--new')[0])}",
    }


def test_other_children_change_at_once_but_for_the_ports_that_lead_to_the_pods() -> None:
    children = rendered("--new", port=9000, labels={"team": "vision"})

    service = plan_upgrade(children, THERE, NEW).children[1]

    assert service["metadata"] == children[1]["metadata"]
    assert service["spec"] == rendered()[1]["spec"]


@pytest.mark.parametrize("origin", [NEWER, OLD], ids=["a newer version", "the previous version again"])
def test_it_waits_when_yet_another_version_follows(origin: RenderOrigin) -> None:
    now = reconciled(rendered("--new"), THERE, NEW)

    assert plan_upgrade(rendered("--newest"), now, origin).waiting["predictor"].version == origin.version


def test_the_version_that_rendered_the_pods_has_nothing_that_waits() -> None:
    now = reconciled(rendered("--new"), THERE, NEW)

    back = plan_upgrade(rendered(), now, OLD)

    assert back == Upgrade(plan_upgrade(rendered(), THERE, OLD).children)
    assert ANNOTATION_WAITING not in annotations_of(back.children[0])


@pytest.mark.parametrize("now", [THERE, by_release_010(rendered())], ids=["another version's", "the first release's"])
def test_a_template_that_is_the_same_is_noted_with_the_version(now: Sequence[Manifest]) -> None:
    planned = plan_upgrade(rendered(), now, NEW)

    assert not planned.waiting
    assert planned.children[0]["spec"] == rendered()[0]["spec"]
    assert annotations_of(planned.children[0])[ANNOTATION_VERSION] == "0.2.0"


# --- what asks for the newer one -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("now", "origin"),
    [
        (THERE, EDITED),
        (THERE, OLD),
        (THERE, AUTO),
        (reconciled(rendered("--new"), THERE, NEW), EDITED),
        (reconciled(rendered("--new"), THERE, NEW), NEW),
        (reconciled(rendered("--changed"), THERE, NEW), AUTO),
        (by_release_010(rendered()), replace(NEW, edited=True)),
        (without(applied(rendered()), ANNOTATION_TEMPLATE, ANNOTATION_RENDERED), NEW),
        (reconciled(rendered(), [], OLD)[1:], NEW),
        (applied(plan_upgrade(rendered(), [], OLD).children, NEVER_UP), NEW),
        (applied(plan_upgrade(rendered(), [], OLD).children, UP, replicas=0), NEW),
    ],
    ids=[
        "something has changed since the other version",
        "this version has rendered the pods",
        "the policy",
        "something has changed while it waits",
        "a secret has changed while it waits",
        "the policy while it waits",
        "the service has changed since the first release",
        "the pods are KServe's",
        "there are no pods",
        "the pods have never served",
        "scaled to zero",
    ],
)
def test_the_newest_template_is_rolled_out(now: Sequence[Manifest], origin: RenderOrigin) -> None:
    planned = plan_upgrade(rendered("--changed"), now, origin)

    assert not planned.waiting
    assert planned.children[0]["spec"] == rendered("--changed")[0]["spec"]
    assert ANNOTATION_WAITING not in annotations_of(planned.children[0])


def test_a_change_that_does_not_concern_the_pods_leaves_it_waiting() -> None:
    now = reconciled(rendered("--new"), THERE, NEW)
    scaled = plan_upgrade(rendered("--new", predictor={"minReplicas": 3}), now, EDITED)

    assert scaled.waiting == WAITS
    assert scaled.children[0]["spec"]["replicas"] == 3
    assert annotations_of(scaled.children[0])[ANNOTATION_INPUTS] == "others"


def test_the_components_of_a_service_get_it_together() -> None:
    there = reconciled(with_transformer("--old"), [], OLD)
    now = reconciled(with_transformer("--new", "--new"), there, NEW)

    changed = plan_upgrade(with_transformer("--new", "--changed"), now, EDITED)

    assert plan_upgrade(with_transformer("--new", "--new"), now, NEW).waiting.keys() == {"predictor", "transformer"}
    assert not changed.waiting
    assert changed.children[0]["spec"] == rendered("--new")[0]["spec"]


# --- pods of the first release, which recorded less -------------------------------------------------------


def test_pods_of_the_first_release_stay() -> None:
    now = by_release_010(rendered())
    planned = plan_upgrade(rendered("--new"), now, NEW)

    assert planned.waiting == {"predictor": WaitingTemplate("", "0.2.0", ("spec.containers[kserve-container].args",))}
    assert planned.children[0]["spec"]["template"] == now[0]["spec"]["template"]

    written = reconciled(rendered("--new"), now, NEW)
    assert plan_changes(plan_upgrade(rendered("--new"), written, NEW).children, written, SERVICE_UID) == []


def test_so_they_do_where_the_new_version_only_leaves_something_out() -> None:
    planned = plan_upgrade(list(the_children().values()), by_release_010(rendered()), NEW)

    assert planned.waiting == {"predictor": WaitingTemplate("", "0.2.0")}


# --- together with a canary --------------------------------------------------------------------------------


def test_what_a_canary_holds_back_keeps_its_notes() -> None:
    kept = [{**rendered("--new")[0], "spec": THERE[0]["spec"]}, *rendered("--new")[1:]]

    assert plan_upgrade(kept, THERE, NEW, paused=["predictor"]) == Upgrade(kept)


# --- what services share, where so many a minute get new pods ------------------------------------------------

QUEUED = {"predictor": WaitingTemplate("0.2.0", "0.2.0", ("spec.containers[kserve-container].args",), queued=True)}
SERVING = reconciled(rendered(), [], NEW)


@pytest.mark.parametrize(
    ("now", "origin", "since"),
    [
        (SERVING, SHARED, "0.2.0"),
        (SERVING, NEW, "0.2.0"),
        (SERVING, replace(SHARED, edited=True), "0.2.0"),
        (THERE, AUTO, "0.1.0"),
        (THERE, SHARED, "0.1.0"),
        (reconciled(rendered("--other"), THERE, NEW), SHARED, "0.1.0"),
        (reconciled(rendered("--new"), THERE, NEW), replace(AUTO, inputs=EDITED.inputs), "0.1.0"),
    ],
    ids=[
        "a runtime",
        "a secret",
        "a runtime, after an edit that was applied",
        "the operator's version, which the pods follow",
        "a runtime, since the other version",
        "a runtime, while the template of another version waits",
        "the operator's version, and the number of pods",
    ],
)
def test_pods_that_others_change_wait_for_their_turn(now: Sequence[Manifest], origin: RenderOrigin, since: str) -> None:
    queued = plan_upgrade(rendered("--new"), now, origin, in_turn=True)
    due = plan_upgrade(rendered("--new"), now, origin)

    assert queued.waiting == {"predictor": replace(QUEUED["predictor"], since=since)}
    assert queued.queued
    assert queued.children[0]["spec"]["template"] == now[0]["spec"]["template"]
    assert without_records(plan_changes(queued.children, now, SERVICE_UID), now) == []
    assert (due.waiting, due.children[0]["spec"]) == ({}, rendered("--new")[0]["spec"])


@pytest.mark.parametrize(
    ("now", "origin"),
    [
        (SERVING, EDITED),
        (without(SERVING, ANNOTATION_OWN_INPUTS), replace(SHARED, edited=True)),
        (SERVING[1:], SHARED),
        (applied(plan_upgrade(rendered(), [], NEW).children, NEVER_UP), SHARED),
        (applied(plan_upgrade(rendered(), [], NEW).children, UP, replicas=0), SHARED),
        (without(applied(rendered()), ANNOTATION_TEMPLATE, ANNOTATION_RENDERED), AUTO),
    ],
    ids=[
        "the service has changed",
        "the service has changed, and an older version did not record its part",
        "there are no pods",
        "the pods have never served",
        "scaled to zero",
        "the pods are KServe's",
    ],
)
def test_others_get_theirs_at_once(now: Sequence[Manifest], origin: RenderOrigin) -> None:
    assert plan_upgrade(rendered("--new"), now, origin, in_turn=True) == plan_upgrade(rendered("--new"), now, origin)


def test_what_waits_for_the_next_change_does_not_queue() -> None:
    assert plan_upgrade(rendered("--new"), THERE, NEW, in_turn=True) == Upgrade(
        plan_upgrade(rendered("--new"), THERE, NEW).children, WAITS
    )


def test_the_components_of_a_service_have_one_turn() -> None:
    now = reconciled(with_transformer("--old"), [], NEW)
    now[3] = {**now[3], "status": NEVER_UP}

    queued = plan_upgrade(with_transformer("--new", "--new"), now, SHARED, in_turn=True)
    own = {"predictor": "own", "transformer": "other"}
    edited = replace(SHARED, inputs=replace(SHARED.inputs, own=own))

    assert queued.waiting == QUEUED
    assert queued.children[3]["spec"]["template"] == rendered("--new")[0]["spec"]["template"], "it serves nobody"
    assert not plan_upgrade(with_transformer("--new", "--new"), now, edited, in_turn=True).queued


def test_the_rest_of_a_deployment_in_the_queue_changes_at_once() -> None:
    queued = plan_upgrade(rendered("--new", predictor={"minReplicas": 3}), SERVING, SHARED, in_turn=True)

    changes = without_records(plan_changes(queued.children, SERVING, SERVICE_UID), SERVING)
    (deployment,) = [change.manifest for change in changes if change.manifest["kind"] == "Deployment"]

    assert (deployment["spec"]["replicas"], deployment["spec"]["template"]) == (3, SERVING[0]["spec"]["template"])
    assert annotations_of(deployment)[ANNOTATION_INPUTS] == "inputs"
