"""What has to be sent so that the children become what was rendered."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.api.names import ANNOTATION_HANDOVER, ANNOTATION_RENDERED
from isvc_operator.manifests import Manifest
from isvc_operator.plan.changes import ChildAction, ChildChange, plan_changes
from tests.support.builders import SERVICE_UID, a_service, an_owner, the_children

RENDERED = the_children(a_service(annotations={"note": "kept"}))


def as_held(manifest: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """The manifest as the API server holds it, once it was applied."""
    (change,) = plan_changes([manifest], [], SERVICE_UID)
    held = {"uid": f"uid-{manifest['kind']}", "resourceVersion": "5", "generation": 1, **metadata}
    return {**change.manifest, "metadata": {**change.manifest["metadata"], **held}}


HELD = [as_held(child) for child in RENDERED.values()]


def deployment_with(path: str, value: Any) -> dict[str, Any]:
    """The Deployment that is held, edited by hand: `path` leads to the field, through lists by their index."""
    edited: dict[str, Any] = _copied(HELD[0])
    place: Any = edited
    *steps, last = path.split(".")
    for step in steps:
        place = place[int(step)] if isinstance(place, list) else place[step]
    place[last] = value
    return edited


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copied(item) for name, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def of_known(wanted: Manifest) -> Manifest:
    """With the uid of the Deployment that is held: another one under its name is not overwritten."""
    return {**wanted, "metadata": {**wanted["metadata"], "uid": HELD[0]["metadata"]["uid"]}}


def test_children_that_are_not_there_are_applied_in_their_order_without_force() -> None:
    changes = plan_changes(list(RENDERED.values()), [], SERVICE_UID)

    assert [change.manifest["kind"] for change in changes] == ["Deployment", "Service", "Ingress"]
    assert changes == [ChildChange(ChildAction.CREATE, change.manifest) for change in changes]


def test_what_is_applied_is_what_was_rendered_and_its_digest() -> None:
    (change,) = plan_changes([RENDERED["Service"]], [], SERVICE_UID)

    annotations = dict(change.manifest["metadata"]["annotations"])
    digest = annotations.pop(ANNOTATION_RENDERED)
    assert len(digest) == 16
    assert {
        **change.manifest,
        "metadata": {**change.manifest["metadata"], "annotations": annotations},
    } == RENDERED["Service"]


def test_nothing_is_sent_when_nothing_differs() -> None:
    assert plan_changes(list(RENDERED.values()), HELD, SERVICE_UID) == []


def test_the_digest_does_not_depend_on_the_order_of_fields() -> None:
    reordered = dict(reversed(RENDERED["Deployment"].items()))

    assert plan_changes([reordered], [HELD[0]], SERVICE_UID) == []


# plan/test_matches.py has what counts as a difference.
DIFFERENCES: dict[str, dict[str, Any]] = {
    "an image": deployment_with("spec.template.spec.containers.0.image", "mine:1"),
    "a label": deployment_with("metadata.labels.component", "mine"),
    "the digest": as_held(RENDERED["Deployment"], annotations={ANNOTATION_RENDERED: "0"}),
}


@pytest.mark.parametrize("edited", DIFFERENCES.values(), ids=DIFFERENCES.keys())
def test_a_child_is_applied_by_force_when_someone_changed(edited: dict[str, Any]) -> None:
    changes = plan_changes(list(RENDERED.values()), [edited, *HELD[1:]], SERVICE_UID)

    wanted = plan_changes([RENDERED["Deployment"]], [], SERVICE_UID)[0].manifest
    assert changes == [ChildChange(ChildAction.UPDATE, of_known(wanted))]


def test_a_child_of_the_service_that_was_never_rendered_is_adopted() -> None:
    kserves = as_held(RENDERED["Deployment"], annotations={})

    changes = plan_changes(list(RENDERED.values()), [kserves, *HELD[1:]], SERVICE_UID)

    wanted = plan_changes([RENDERED["Deployment"]], [], SERVICE_UID)[0].manifest
    assert changes == [ChildChange(ChildAction.UPDATE, of_known(wanted), adopts=True)]


@pytest.mark.parametrize(("operation", "adopts"), [("Update", True), ("Apply", False)])
def test_a_child_that_we_have_created_and_not_applied_is_adopted(operation: str, adopts: bool) -> None:
    created = as_held(
        {**RENDERED["Service"], "spec": {}}, managedFields=[{"manager": "isvc-operator", "operation": operation}]
    )

    (change,) = plan_changes([RENDERED["Service"]], [created], SERVICE_UID)

    assert (change.action, change.adopts) == (ChildAction.UPDATE, adopts)


def test_unwatched_children_may_exist_if_kserve_has_managed_the_service() -> None:
    changes = plan_changes(list(RENDERED.values()), [], SERVICE_UID, managed_by_kserve=True)

    assert [change.adopts for change in changes] == [True] * 3


def test_pods_stay_when_their_number_is_no_longer_rendered() -> None:
    fixed = the_children(a_service(predictor={"minReplicas": 5}))["Deployment"]

    (change,) = plan_changes([RENDERED["Deployment"]], [as_held(fixed)], SERVICE_UID)

    assert change.frees_replicas


def test_a_child_of_a_kind_without_a_spec_is_updated() -> None:
    metadata = {key: value for key, value in RENDERED["Service"]["metadata"].items() if key != "annotations"}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}}
    held = as_held(config_map)

    (change,) = plan_changes([{**config_map, "data": {"a": "2"}}], [held], SERVICE_UID)

    assert (change.action, change.frees_replicas) == (ChildAction.UPDATE, False)


KEPT: dict[str, dict[str, Any]] = {
    "a default of the server": deployment_with("spec.template.spec.restartPolicy", "Always"),
    "another's annotation": deployment_with("metadata.annotations.mine", "1"),
    "another's replicas": deployment_with("spec.replicas", 7),
    "another's container": deployment_with(
        "spec.template.spec.containers",
        [{"name": "istio-proxy"}, *HELD[0]["spec"]["template"]["spec"]["containers"]],
    ),
    "a status": deployment_with("status", {"replicas": 1}),
    "the server's bookkeeping": as_held(RENDERED["Deployment"], creationTimestamp="2026-01-01T00:00:00Z", generation=4),
}


@pytest.mark.parametrize("held", KEPT.values(), ids=KEPT.keys())
def test_a_child_is_left_alone_when_it_has(held: dict[str, Any]) -> None:
    assert plan_changes(list(RENDERED.values()), [held, *HELD[1:]], SERVICE_UID) == []


# --- what is no longer rendered -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("held", "deleted"),
    [
        (HELD[2], True),
        (as_held(RENDERED["Deployment"], annotations={}), True),
        (as_held(RENDERED["Ingress"], deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["gateway"]), False),
    ],
    ids=["ours", "KServe's", "one that is being deleted already"],
)
def test_a_child_that_is_not_rendered_is_deleted(held: dict[str, Any], deleted: bool) -> None:
    assert plan_changes([], [held], SERVICE_UID) == ([ChildChange(ChildAction.DELETE, held)] if deleted else [])


def test_a_renamed_child_is_applied_and_the_old_one_deleted() -> None:
    renamed = {**RENDERED["Service"], "metadata": {**RENDERED["Service"]["metadata"], "name": "other"}}

    changes = plan_changes([renamed], HELD[1:2], SERVICE_UID)

    assert [(change.action, change.manifest["metadata"]["name"]) for change in changes] == [
        (ChildAction.CREATE, "other"),
        (ChildAction.DELETE, "torchserve-predictor"),
    ]


NOT_OURS = {
    "no owner": {"ownerReferences": []},
    "no list of owners": {"ownerReferences": None},
    "another owner": {"ownerReferences": [an_owner("another-uid")]},
    "us as one owner, not as the controller": {"ownerReferences": [{**an_owner(), "controller": False}]},
}


@pytest.mark.parametrize("metadata", NOT_OURS.values(), ids=NOT_OURS.keys())
def test_a_child_is_neither_deleted_nor_forced_that_has(metadata: dict[str, Any]) -> None:
    foreign = [as_held(child, **metadata) for child in RENDERED.values()]

    changes = plan_changes([RENDERED["Deployment"]], foreign, SERVICE_UID)

    assert [(change.manifest["kind"], change.action) for change in changes] == [("Deployment", ChildAction.CREATE)]


def test_a_deployment_that_is_handed_over_creates_every_new_pod_before_an_old_one_ends() -> None:
    held = deployment_with("metadata.annotations", {**HELD[0]["metadata"]["annotations"], ANNOTATION_HANDOVER: "true"})

    (change,) = plan_changes([RENDERED["Deployment"]], [held], SERVICE_UID)

    assert change.action is ChildAction.UPDATE
    surging = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "100%", "maxUnavailable": 0}}
    assert change.manifest["spec"] == {**RENDERED["Deployment"]["spec"], "strategy": surging}
