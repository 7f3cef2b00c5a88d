"""Which rendered fields an object does not have, by their paths, and who manages these."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from isvc_operator.plan.diff import differences, managers_of, matches
from tests.unit.operator_core.plan.test_matches import MANIFESTS

CONTAINER = {"name": "kserve-container", "image": "ours:1", "env": [{"name": "A", "value": "1"}]}
RENDERED: dict[str, Any] = {
    "metadata": {"annotations": {"isvc-operator.io/rendered": "d"}},
    "spec": {
        "replicas": 1,
        "ports": [{"port": 80, "targetPort": 8080}],
        "template": {"spec": {"containers": [CONTAINER]}},
    },
}


SERVER = "spec.template.spec.containers[kserve-container]"


def changed(**fields: Any) -> dict[str, Any]:
    return {**RENDERED, "spec": {**RENDERED["spec"], **fields}}


def with_container(**fields: Any) -> dict[str, Any]:
    return changed(template={"spec": {"containers": [{"name": "sidecar"}, {**CONTAINER, **fields}]}})


@pytest.mark.parametrize(
    ("observed", "paths"),
    [
        pytest.param(RENDERED, [], id="nothing"),
        pytest.param(changed(replicas=3), ["spec.replicas"], id="a number"),
        pytest.param(with_container(image="theirs:2"), [f"{SERVER}.image"], id="an image"),
        pytest.param(with_container(env=[]), [f"{SERVER}.env[A]"], id="a missing item"),
        pytest.param(with_container(env=None), [f"{SERVER}.env"], id="a missing list"),
        pytest.param(changed(ports=[{"port": 80, "targetPort": 1}]), ["spec.ports[80].targetPort"], id="a port"),
        pytest.param({**RENDERED, "metadata": {}}, ["metadata.annotations"], id="all annotations"),
        pytest.param(
            {**RENDERED, "metadata": {"annotations": {"b": "c"}}},
            ["metadata.annotations[isvc-operator.io/rendered]"],
            id="an annotation",
        ),
    ],
)  # fmt: skip
def test_each_difference_is_named_by_its_path(observed: dict[str, Any], paths: list[str]) -> None:
    assert [str(item) for item in differences(observed, RENDERED)] == paths


@given(MANIFESTS, MANIFESTS)
def test_there_is_a_difference_where_a_value_does_not_cover_another_and_only_there(before: Any, after: Any) -> None:
    observed, rendered = {"spec": before}, {"spec": after}
    assert bool(differences(observed, rendered)) is not matches(observed, rendered)


def entry(manager: str, fields: dict[str, Any], *, subresource: str = "", time: str = "1") -> dict[str, Any]:
    return {
        "manager": manager,
        "fieldsV1": fields,
        "time": time,
        **({"subresource": subresource} if subresource else {}),
    }


OURS = entry("isvc-operator", {"f:spec": {"f:replicas": {}, "f:template": {}}})
REWRITER = entry(
    "rewriter",
    {
        "f:spec": {
            "f:template": {"f:spec": {"f:containers": {'k:{"name":"kserve-container"}': {".": {}, "f:image": {}}}}}
        }
    },
)
AUTOSCALER = entry("autoscaler", {"f:spec": {"f:replicas": {}}}, subresource="scale", time="2")
CONTROLLER = entry("controller", {"f:status": {}, "f:spec": {"f:replicas": {}}}, subresource="status", time="3")
PORTS = entry("porter", {"f:spec": {"f:ports": {'k:{"port":80,"protocol":"TCP"}': {"f:targetPort": {}}}}})
ALL = [OURS, REWRITER, AUTOSCALER, CONTROLLER, PORTS]


@pytest.mark.parametrize(
    ("observed", "managers"),
    [
        pytest.param(changed(replicas=3), ("autoscaler",), id="of a field"),
        pytest.param(with_container(image="theirs:2"), ("rewriter",), id="of a field of an item"),
        pytest.param(
            changed(ports=[{"port": 80, "targetPort": 1}]), ("porter",), id="of an item with a default in its key"
        ),
        pytest.param(with_container(env=[]), ("autoscaler",), id="the last one if nobody has the field"),
    ],
)
def test_the_manager_is_found(observed: dict[str, Any], managers: tuple[str, ...]) -> None:
    live = {**observed, "metadata": {"managedFields": ALL}}
    assert managers_of(live, differences(observed, RENDERED)) == managers


def test_an_object_that_nobody_else_has_written_has_no_other_manager() -> None:
    live = {"metadata": {"managedFields": [OURS, CONTROLLER]}}
    assert managers_of(live, differences(changed(replicas=3), RENDERED)) == ()
