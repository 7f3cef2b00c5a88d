"""Which changes of pods are held back, because the service requests a canary for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from isvc_operator.api.names import ANNOTATION_RENDERED, ANNOTATION_TEMPLATE
from isvc_operator.manifests import Manifest
from isvc_operator.plan.changes import plan_changes
from isvc_operator.plan.kept_pods import pause_rollouts
from tests.support.builders import SERVICE_UID, a_deployment_status, a_service, the_children

PERCENT = "spec.predictor.canaryTrafficPercent: 20"
CANARY = {"predictor": PERCENT}
UP = a_deployment_status()
LOST = a_deployment_status(available=0)  # it was rolled out, and has no pod at the moment
NEVER_UP = a_deployment_status(available=0, progressing="ReplicaSetUpdated")


def rendered(**fields: Any) -> list[Manifest]:
    return list(the_children(a_service(**fields)).values())


def with_transformer(image: str, **fields: Any) -> list[Manifest]:
    """Return the children of a predictor and of a transformer: `the_children` has one of each kind."""
    front = [
        {**child, "metadata": {**child["metadata"], "name": "front", "labels": {"component": "transformer"}}}
        for child in rendered(model={"args": [image]})[:2]
    ]
    return [*rendered(**fields), *front]


def there(children: Sequence[Manifest], status: Manifest = UP) -> list[Manifest]:
    """The children as the API server holds them: with a default, and a status."""
    held = []
    for change in plan_changes(children, [], SERVICE_UID):
        child = change.manifest
        if child["kind"] == "Deployment":
            template = child["spec"]["template"]
            pod = {**template["spec"], "restartPolicy": "Always"}
            child = {**child, "spec": {**child["spec"], "template": {**template, "spec": pod}}, "status": status}
        held.append(child)
    return held


def without_annotations(child: Manifest) -> Manifest:
    """The child as KServe's controller, or an older version of the operator, has made it."""
    own = (ANNOTATION_RENDERED, ANNOTATION_TEMPLATE)
    annotations = {name: value for name, value in child["metadata"]["annotations"].items() if name not in own}
    return {**child, "metadata": {**child["metadata"], "annotations": annotations}}


BEFORE = rendered(model={"args": ["--before"]})
AFTER = rendered(model={"args": ["--after"]}, predictor={"minReplicas": 3}, labels={"team": "vision"})
THERE = there(BEFORE)


def held(after: Sequence[Manifest], before: Sequence[Manifest]) -> tuple[Sequence[Manifest], Mapping[str, str]]:
    """The children with the pods that exist, and the components that are held back."""
    return pause_rollouts(after, before, CANARY)


def test_the_pods_keep_their_template_and_the_rest_of_the_change_goes_on() -> None:
    deployment, *others = held(AFTER, THERE)[0]

    assert deployment["spec"] == {**AFTER[0]["spec"], "template": THERE[0]["spec"]["template"]}
    assert deployment["spec"]["replicas"] == 3
    assert deployment["metadata"]["labels"] == AFTER[0]["metadata"]["labels"]
    assert others == AFTER[1:]


@pytest.mark.parametrize("change", [rendered(model={"args": ["--after"]}), rendered()], ids=["changed", "removed"])
def test_a_held_back_change_is_held_back_by_every_later_reconcile(change: list[Manifest]) -> None:
    now = [*there(held(change, THERE)[0])[:1], *THERE[1:]]

    assert held(change, now)[1] == CANARY
    assert plan_changes(held(change, now)[0], now, SERVICE_UID) == []


EDITED = {
    **THERE[0],
    "spec": {**THERE[0]["spec"], "template": {**THERE[0]["spec"]["template"], "spec": {"containers": []}}},
}


@pytest.mark.parametrize(
    ("change", "now"),
    [
        (BEFORE, [*there(held(AFTER, THERE)[0])[:1], *THERE[1:]]),
        (rendered(model={"args": ["--before"]}, predictor={"minReplicas": 3}), THERE),
        (BEFORE, [EDITED, *THERE[1:]]),
        (BEFORE, [without_annotations(child) for child in THERE]),
    ],
    ids=["is taken back", "replaces no pods", "restores what someone has edited", "an older version has rendered"],
)
def test_a_change_is_not_held_back_that(change: list[Manifest], now: list[Manifest]) -> None:
    assert held(change, now) == (change, {})


@pytest.mark.parametrize(
    ("before", "components"), [([], {}), (there(BEFORE, NEVER_UP), {}), (there(BEFORE, LOST), CANARY)]
)
def test_a_component_that_has_never_served_is_rolled_out(before: list[Manifest], components: dict[str, str]) -> None:
    assert held(AFTER, before)[1] == components


def test_pods_that_were_not_rendered_by_this_version_are_compared_field_by_field() -> None:
    assert held(AFTER, [without_annotations(child) for child in THERE])[1] == CANARY


def test_callers_of_a_predictor_that_is_held_back_are_held_back_with_it() -> None:
    before = there(with_transformer("t:1", model={"args": ["--before"]}))

    both = held(with_transformer("t:2", model={"args": ["--after"]}), before)
    alone = held(with_transformer("t:2", model={"args": ["--before"]}), before)

    assert both[1] == {"predictor": PERCENT, "transformer": PERCENT}
    assert alone[1] == {}
