"""Which changes to a service that serves have to wait, and for what, the drain period included."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from isvc_operator.api.names import LABEL_COMPONENT
from isvc_operator.controller.children import DRAIN_SECONDS, due_changes
from isvc_operator.controller.memory import ServiceMemory
from isvc_operator.manifests import Manifest, ServiceKey
from isvc_operator.plan.changes import plan_changes
from isvc_operator.plan.traffic import TrafficPlan, plan_traffic
from tests.support.builders import NAMESPACE, SERVICE_UID, a_deployment_status, an_owner
from tests.support.fakes import Seconds

KEY = ServiceKey(NAMESPACE, "torchserve")
UP = a_deployment_status()
ROLLING = a_deployment_status(updated=1, total=2, progressing="ReplicaSetUpdated")
DOWN = a_deployment_status(available=0, progressing="ReplicaSetUpdated")
LOST = a_deployment_status(available=0)  # it was rolled out, and has no pod at the moment


def an_object(kind: str, name: str, component: str = "", **fields: Any) -> Manifest:
    labels = {LABEL_COMPONENT: component} if component else {}
    metadata = {"name": name, "namespace": NAMESPACE, "uid": "u", "labels": labels, "ownerReferences": [an_owner()]}
    return {"kind": kind, "metadata": metadata, "spec": {}, **fields}


def a_component(component: str, name: str = "", *, status: Manifest = UP, calls: str = "") -> list[Manifest]:
    """Deployment and Service. `calls` is the predictor that its containers call."""
    name = name or component
    deployment = an_object("Deployment", name, component, spec={"calls": calls}, status=status)
    return [deployment, an_object("Service", name, component)]


def an_ingress(*names: str) -> Manifest:
    paths = [{"path": "/", "backend": {"service": {"name": name, "port": {"number": 80}}}} for name in names]
    return an_object("Ingress", "torchserve", spec={"rules": [{"host": "h", "http": {"paths": paths}}]})


@dataclass
class Drain:
    """What is remembered of the service while time passes."""

    clock: Seconds
    memory: ServiceMemory = field(default_factory=ServiceMemory)


def due(wanted: list[Manifest], there: list[Manifest], drain: Drain | None = None) -> list[str]:
    """What is sent now."""
    drain = drain or Drain(Seconds())
    return [
        f"{'DELETE' if change.deletes else 'PATCH'} {change.manifest['kind']} {change.manifest['metadata']['name']}"
        for change in due_changes(traffic(wanted, there), drain.memory, drain.clock())[0]
    ]


def traffic(wanted: list[Manifest], there: list[Manifest]) -> TrafficPlan:
    """Return the plan; objects that are rendered as they exist need no change."""
    rendered = [{name: value for name, value in child.items() if name != "status"} for child in wanted]
    kept = {(child["kind"], child["metadata"]["name"], str(child["spec"])) for child in there}
    changes = [
        change
        for change in plan_changes(rendered, there, SERVICE_UID)
        if change.deletes
        or (change.manifest["kind"], change.manifest["metadata"]["name"], str(change.manifest["spec"])) not in kept
    ]
    return plan_traffic(KEY.name, changes, rendered=rendered, observed=there)


PREDICTOR, TRANSFORMER = a_component("predictor"), a_component("transformer", calls="predictor")
ALONE = [*PREDICTOR, an_ingress("predictor")]
BOTH = [*PREDICTOR, *TRANSFORMER, an_ingress("transformer", "predictor")]
NEW_FRONT = ["PATCH Deployment transformer", "PATCH Service transformer"]
NEW_INGRESS = ["PATCH Ingress torchserve"]


def test_a_first_service_gets_everything_at_once() -> None:
    assert due(BOTH, []) == [
        "PATCH Deployment predictor", "PATCH Service predictor", *NEW_FRONT, *NEW_INGRESS,
    ]  # fmt: skip


HPA = an_object("HorizontalPodAutoscaler", "predictor", "predictor", spec={"minReplicas": 1, "maxReplicas": 2})


def test_an_autoscaler_that_is_not_wanted_any_more_is_deleted_at_once() -> None:
    assert due(ALONE, [*ALONE, HPA]) == ["DELETE HorizontalPodAutoscaler predictor"]


def test_the_autoscaler_of_a_component_that_is_replaced_stays_as_long_as_its_deployment() -> None:
    renamed = [*a_component("predictor", "other"), an_ingress("other")]
    seconds = Seconds()
    drain = Drain(seconds)

    assert due(renamed, [*ALONE, HPA], drain) == ["PATCH Deployment other", "PATCH Service other"]
    assert due(renamed, [*renamed, *PREDICTOR, HPA], drain) == []
    seconds.passed += DRAIN_SECONDS
    assert due(renamed, [*renamed, *PREDICTOR, HPA], drain) == [
        "DELETE Deployment predictor", "DELETE Service predictor", "DELETE HorizontalPodAutoscaler predictor",
    ]  # fmt: skip


def test_traffic_moves_to_a_new_component_once_it_is_rolled_out() -> None:
    starting = [*ALONE, *a_component("transformer", status=DOWN, calls="predictor")]

    assert due(BOTH, ALONE) == NEW_FRONT
    assert due(BOTH, starting) == []
    assert due(BOTH, [*ALONE, *TRANSFORMER]) == NEW_INGRESS


def test_a_component_with_traffic_may_roll() -> None:
    there = [*a_component("predictor", status=ROLLING), an_ingress("predictor")]
    other_hosts = an_ingress("predictor", "predictor")

    assert due([*PREDICTOR, other_hosts], there) == NEW_INGRESS


@pytest.mark.parametrize("status", [LOST, DOWN, {}])
def test_traffic_stays_on_an_unavailable_component_until_the_new_one_serves(status: Manifest) -> None:
    there = [*a_component("predictor", status=status), an_ingress("predictor")]
    starting = a_component("transformer", status=DOWN, calls="predictor")

    assert due(BOTH, there) == NEW_FRONT
    assert due(BOTH, [*there, *starting]) == []


@pytest.mark.parametrize(("before", "led"), [(UP, []), (LOST, NEW_INGRESS), (DOWN, NEW_INGRESS)])
def test_a_partly_available_component_gets_only_traffic_that_nothing_else_serves(
    before: Manifest, led: list[str]
) -> None:
    there = [*a_component("predictor", status=before), an_ingress("predictor")]

    assert due(BOTH, [*there, *a_component("transformer", status=ROLLING, calls="predictor")]) == led


def test_a_component_with_traffic_stays_while_it_has_no_pod_for_a_moment() -> None:
    renamed = [*a_component("predictor", "other"), an_ingress("other")]
    starting = a_component("predictor", "other", status=DOWN)

    assert due(renamed, [*a_component("predictor", status=LOST), an_ingress("predictor"), *starting]) == []


def test_an_ingress_that_the_user_has_created_does_not_count() -> None:
    mine = an_ingress("predictor")
    there = [*a_component("predictor", status=DOWN), {**mine, "metadata": {**mine["metadata"], "name": "mine"}}]
    wanted = [*BOTH, there[-1]]

    assert due(wanted, there) == [*NEW_FRONT, *NEW_INGRESS]


def test_a_predictor_that_never_came_up_gives_way_to_another_at_once() -> None:
    renamed = [*a_component("predictor", "other"), an_ingress("other")]

    assert due(renamed, [*a_component("predictor", status=DOWN), an_ingress("predictor")]) == [
        "PATCH Deployment other", "PATCH Service other", *NEW_INGRESS,
        "DELETE Deployment predictor", "DELETE Service predictor",
    ]  # fmt: skip


def test_a_transformer_without_a_pod_is_not_moved_to_a_predictor_that_is_not_up() -> None:
    there = [*PREDICTOR, *a_component("transformer", status=LOST, calls="predictor"), BOTH[-1]]
    moved = a_component("transformer", calls="other")
    wanted = [*a_component("predictor", "other"), *moved, an_ingress("transformer", "other")]

    assert due(wanted, there) == ["PATCH Deployment other", "PATCH Service other"]


def test_another_predictor_takes_over_when_it_is_up() -> None:
    renamed = [*a_component("predictor", "other"), an_ingress("other")]
    starting = a_component("predictor", "other", status=DOWN)

    assert due(renamed, ALONE) == ["PATCH Deployment other", "PATCH Service other"]
    assert due(renamed, [*ALONE, *starting]) == []
    assert due(renamed, [*ALONE, *a_component("predictor", "other")]) == NEW_INGRESS


def test_a_transformer_is_moved_to_another_predictor_when_that_is_up() -> None:
    moved = a_component("transformer", calls="other")
    wanted = [*a_component("predictor", "other"), *moved, an_ingress("transformer", "other")]
    starting = a_component("predictor", "other", status=DOWN)

    assert due(wanted, BOTH) == ["PATCH Deployment other", "PATCH Service other"]
    assert due(wanted, [*BOTH, *starting]) == []
    assert due(wanted, [*BOTH, *a_component("predictor", "other")]) == ["PATCH Deployment transformer", *NEW_INGRESS]


GONE = ["DELETE Deployment transformer", "DELETE Service transformer"]


def test_a_component_without_traffic_is_deleted_after_the_drain_period() -> None:
    clock = Seconds()
    drain = Drain(clock)
    there = [*TRANSFORMER, *ALONE]

    assert due(ALONE, BOTH, drain) == NEW_INGRESS
    clock.passed = DRAIN_SECONDS
    assert due(ALONE, there, drain) == []
    clock.passed = 2 * DRAIN_SECONDS
    assert due(ALONE, there, drain) == GONE


def test_a_removed_transformer_waits_for_no_rollout_that_may_need_its_resources() -> None:
    clock = Seconds()
    drain = Drain(clock)
    rolling = [*TRANSFORMER, *a_component("predictor", status=ROLLING), ALONE[-1]]

    assert due(ALONE, rolling, drain) == []
    clock.passed = DRAIN_SECONDS
    assert due(ALONE, rolling, drain) == GONE


def test_other_changes_do_not_prolong_the_drain_period() -> None:
    clock = Seconds()
    drain = Drain(clock)
    edited = [*a_component("predictor", calls="something"), ALONE[-1]]
    there = [*TRANSFORMER, *ALONE]

    assert due(edited, there, drain) == ["PATCH Deployment predictor"]
    clock.passed = DRAIN_SECONDS
    assert due(edited, there, drain) == ["PATCH Deployment predictor", *GONE]


def test_what_the_ingress_routes_to_stays() -> None:
    clock = Seconds()
    drain = Drain(clock)
    starting = a_component("explainer", status=DOWN, calls="predictor")
    wanted = [*PREDICTOR, *starting, an_ingress("predictor", "explainer")]

    assert due(wanted, [*BOTH, *starting], drain) == []
    clock.passed = DRAIN_SECONDS
    assert due(wanted, [*BOTH, *starting], drain) == []


@pytest.mark.parametrize(
    ("rolling", "left"),
    [
        (a_component("predictor", "other", status=ROLLING), False),
        (a_component("transformer", status=ROLLING, calls="other"), False),
        (a_component("explainer", status=DOWN, calls="other"), True),
    ],
)
def test_a_predictor_is_deleted_when_another_is_up_and_its_clients_were_moved(
    rolling: list[Manifest], left: bool
) -> None:
    clock = Seconds()
    drain = Drain(clock)
    moved = [*a_component("predictor", "other"), *a_component("transformer", calls="other")]
    wanted = [*moved, *a_component("explainer", calls="other"), an_ingress("transformer", "other")]
    names = {child["metadata"]["name"] for child in rolling}
    others = [child for child in wanted if child["metadata"]["name"] not in names]

    due(wanted, [*PREDICTOR, *others, *rolling], drain)
    clock.passed = DRAIN_SECONDS
    gone = ["DELETE Deployment predictor", "DELETE Service predictor"]
    assert due(wanted, [*PREDICTOR, *others, *rolling], drain) == (gone if left else [])


def test_a_component_that_never_served_is_deleted_at_once() -> None:
    there = [*a_component("transformer", status=DOWN), *ALONE]

    assert due(ALONE, there) == ["DELETE Deployment transformer", "DELETE Service transformer"]


def test_all_children_of_a_stopped_service_are_deleted_at_once() -> None:
    assert due([], ALONE) == ["DELETE Deployment predictor", "DELETE Service predictor", "DELETE Ingress torchserve"]


def test_an_ingress_that_is_not_rendered_any_more_is_deleted_at_once() -> None:
    assert due(PREDICTOR, ALONE) == ["DELETE Ingress torchserve"]


RENAMED = a_component("predictor", "other")


@pytest.mark.parametrize(
    ("wanted", "there", "held"),
    [
        (BOTH, [], False),
        (BOTH, ALONE, True),
        (BOTH, [*ALONE, *TRANSFORMER], False),
        (RENAMED, PREDICTOR, True),
        (RENAMED, [*PREDICTOR, *RENAMED], False),
        (ALONE, BOTH, False),
    ],
)
def test_traffic_is_held_while_another_component_is_not_up(
    wanted: list[Manifest], there: list[Manifest], held: bool
) -> None:
    assert traffic(wanted, there).held is held


# --- an Ingress and HTTPRoutes ----------------------------------------------------------------------------

GATEWAY = {"namespace": "gateways", "name": "kserve"}
ACCEPTED = {"parents": [{"parentRef": GATEWAY, "conditions": [{"type": "Accepted", "status": "True"}]}]}


def a_route(component: str, kind: str = "HTTPRoute", name: str = "torchserve", status: Manifest = ACCEPTED) -> Manifest:
    rules = [{"backendRefs": [{"name": component, "port": 80}]}]
    return {**an_object(kind, name, spec={"parentRefs": [GATEWAY], "rules": rules}), "status": status}


def test_an_ingress_stays_until_its_httproute_is_accepted_and_for_a_drain_period() -> None:
    clock = Seconds()
    drain = Drain(clock)
    wanted = [*PREDICTOR, a_route("predictor")]

    assert due(wanted, ALONE, drain) == ["PATCH HTTPRoute torchserve"]
    assert due(wanted, [*ALONE, a_route("predictor", status={})], drain) == []
    clock.passed = DRAIN_SECONDS
    assert due(wanted, [*ALONE, a_route("predictor")], drain) == []
    clock.passed = 2 * DRAIN_SECONDS
    assert due(wanted, [*ALONE, a_route("predictor")], drain) == ["DELETE Ingress torchserve"]


def test_httproutes_stay_for_a_drain_period_when_an_ingress_replaces_them() -> None:
    clock = Seconds()
    drain = Drain(clock)
    there = [*PREDICTOR, a_route("predictor")]

    assert due(ALONE, there, drain) == NEW_INGRESS
    assert due(ALONE, [*there, ALONE[-1]], drain) == []
    clock.passed = DRAIN_SECONDS
    assert due(ALONE, [*there, ALONE[-1]], drain) == ["DELETE HTTPRoute torchserve"]


def test_a_grpcroute_replaces_an_httproute_at_once_as_no_gateway_accepts_both() -> None:
    wanted = [*PREDICTOR, a_route("predictor", "GRPCRoute")]

    assert due(wanted, [*PREDICTOR, a_route("predictor")]) == [
        "PATCH GRPCRoute torchserve", "DELETE HTTPRoute torchserve",
    ]  # fmt: skip


def test_an_httproute_moves_to_a_new_component_once_it_is_rolled_out() -> None:
    wanted = [*PREDICTOR, *TRANSFORMER, a_route("transformer"), a_route("predictor", name="torchserve-predictor")]
    there = [*PREDICTOR, a_route("predictor"), a_route("predictor", name="torchserve-predictor")]

    assert due(wanted, there) == NEW_FRONT
    assert due(wanted, [*there, *TRANSFORMER]) == ["PATCH HTTPRoute torchserve"]


def test_the_httproute_of_a_removed_component_leaves_before_the_component() -> None:
    clock = Seconds()
    drain = Drain(clock)
    alone = [*PREDICTOR, a_route("predictor")]
    both = [*PREDICTOR, *TRANSFORMER, a_route("transformer"), a_route("transformer", name="torchserve-transformer")]

    assert due(alone, both, drain) == ["PATCH HTTPRoute torchserve", "DELETE HTTPRoute torchserve-transformer"]
    clock.passed = DRAIN_SECONDS
    assert due(alone, [*alone, *TRANSFORMER], drain) == []
    clock.passed = 2 * DRAIN_SECONDS
    assert due(alone, [*alone, *TRANSFORMER], drain) == GONE


def test_httproutes_of_a_removed_component_stay_while_their_traffic_is_held() -> None:
    renamed = [*a_component("predictor", "other"), a_route("other")]
    there = [*PREDICTOR, *TRANSFORMER, a_route("transformer"), a_route("transformer", name="torchserve-transformer")]

    assert due(renamed, there) == ["PATCH Deployment other", "PATCH Service other"]


def test_a_component_that_leaves_while_the_kind_of_route_changes_is_deleted_a_drain_period_after_the_old_routes() -> (
    None
):
    clock = Seconds()
    drain = Drain(clock)
    alone = [*PREDICTOR, a_route("predictor")]

    assert due(alone, [*BOTH, a_route("predictor")], drain) == []
    clock.passed = DRAIN_SECONDS
    assert due(alone, [*BOTH, a_route("predictor")], drain) == ["DELETE Ingress torchserve"]
    assert due(alone, [*alone, *TRANSFORMER], drain) == []
    clock.passed = 2 * DRAIN_SECONDS
    assert due(alone, [*alone, *TRANSFORMER], drain) == GONE


def a_policy(name: str, allowed: str) -> Manifest:
    return an_object("NetworkPolicy", name, name, spec={"allowed": allowed})


CLOSED = [*BOTH[:-1], an_ingress("transformer"), a_policy("predictor", "transformer"), a_policy("transformer", "all")]


def test_a_predictor_is_closed_after_traffic_has_left_it_for_its_transformer() -> None:
    seconds = Seconds()
    drain = Drain(seconds)
    open_, rolling = (
        [*ALONE, a_policy("predictor", "all")],
        a_component("transformer", status=ROLLING, calls="predictor"),
    )
    new = ["PATCH NetworkPolicy transformer"]

    assert due(CLOSED, open_, drain) == [*NEW_FRONT, *new]
    assert due(CLOSED, [*open_, *rolling, CLOSED[-1]], drain) == []
    assert due(CLOSED, [*open_, *TRANSFORMER, CLOSED[-1]], drain) == NEW_INGRESS
    routed = [*PREDICTOR, *TRANSFORMER, *CLOSED[-3:-2], a_policy("predictor", "all"), CLOSED[-1]]
    assert due(CLOSED, routed, drain) == []
    seconds.passed += DRAIN_SECONDS
    assert due(CLOSED, routed, drain) == ["PATCH NetworkPolicy predictor"]


def test_a_predictor_that_gets_traffic_again_is_opened_at_once() -> None:
    opened = [*PREDICTOR, an_ingress("predictor"), a_policy("predictor", "all")]

    assert "PATCH NetworkPolicy predictor" in due(opened, CLOSED)


def test_a_first_service_is_closed_at_once() -> None:
    assert "PATCH NetworkPolicy predictor" in due(CLOSED, [])
