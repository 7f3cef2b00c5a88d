"""Which changes to a service that serves have to wait, and for what, the drain period included."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.api.names import LABEL_COMPONENT
from isvc_operator.controller.children import DRAIN_SECONDS, due_changes
from isvc_operator.controller.memory import ServiceMemory
from isvc_operator.manifests import Manifest, ServiceKey
from isvc_operator.plan.changes import plan_changes
from isvc_operator.plan.traffic import TrafficPlan, plan_traffic
from tests.support.builders import NAMESPACE, SERVICE_UID, a_deployment_status, an_owner

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


def due(wanted: list[Manifest], *there: list[Manifest]) -> list[list[str]]:
    """What is sent for each of these states, the next of which is seen a drain period later."""
    memory = ServiceMemory()
    return [
        [
            f"{'DELETE' if change.deletes else 'PATCH'} {change.manifest['kind']} {change.manifest['metadata']['name']}"
            for change in due_changes(traffic(wanted, now), memory, number * DRAIN_SECONDS)[0]
        ]
        for number, now in enumerate(there)
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


HPA = an_object("HorizontalPodAutoscaler", "predictor", "predictor", spec={"minReplicas": 1, "maxReplicas": 2})
OTHER = a_component("predictor", "other")
OTHER_STARTS = a_component("predictor", "other", status=DOWN)
RENAMED = [*OTHER, an_ingress("other")]
MOVED = [*OTHER, *a_component("transformer", calls="other"), an_ingress("transformer", "other")]
NEW_OTHER = ["PATCH Deployment other", "PATCH Service other"]
OLD_PREDICTOR = ["DELETE Deployment predictor", "DELETE Service predictor"]
OLD_FRONT = ["DELETE Deployment transformer", "DELETE Service transformer"]
FRONT_STARTS = a_component("transformer", status=DOWN, calls="predictor")
FRONT_ROLLS = a_component("transformer", status=ROLLING, calls="predictor")
MY_INGRESS = {**an_ingress("predictor"), "metadata": {**an_ingress("predictor")["metadata"], "name": "mine"}}


def served_by(status: Manifest) -> list[Manifest]:
    """A predictor alone in this state, with the traffic."""
    return [*a_component("predictor", status=status), an_ingress("predictor")]


AT_ONCE: dict[str, tuple[list[Manifest], list[Manifest], list[str]]] = {
    "a first service gets everything": (
        BOTH, [], ["PATCH Deployment predictor", "PATCH Service predictor", *NEW_FRONT, *NEW_INGRESS]
    ),
    "an autoscaler that is not wanted any more goes": (
        ALONE, [*ALONE, HPA], ["DELETE HorizontalPodAutoscaler predictor"]
    ),
    "traffic waits for a new component": (BOTH, ALONE, NEW_FRONT),
    "traffic waits while it starts": (BOTH, [*ALONE, *FRONT_STARTS], []),
    "traffic moves once it is rolled out": (BOTH, [*ALONE, *TRANSFORMER], NEW_INGRESS),
    "a component with traffic may roll": (
        [*PREDICTOR, an_ingress("predictor", "predictor")], served_by(ROLLING), NEW_INGRESS
    ),
    "traffic waits beside a component that was lost": (BOTH, served_by(LOST), NEW_FRONT),
    "traffic waits beside a component that never came up": (BOTH, served_by(DOWN), NEW_FRONT),
    "traffic waits beside a component of which nothing is known": (BOTH, served_by({}), NEW_FRONT),
    "traffic waits for the new one beside a lost one": (BOTH, [*served_by(LOST), *FRONT_STARTS], []),
    "traffic waits for the new one beside one that never came up": (BOTH, [*served_by(DOWN), *FRONT_STARTS], []),
    "traffic waits for the new one beside an unknown one": (BOTH, [*served_by({}), *FRONT_STARTS], []),
    "a partly available component gets none that is served": (BOTH, [*served_by(UP), *FRONT_ROLLS], []),
    "a partly available component gets what was lost": (BOTH, [*served_by(LOST), *FRONT_ROLLS], NEW_INGRESS),
    "a partly available component gets what never came up": (BOTH, [*served_by(DOWN), *FRONT_ROLLS], NEW_INGRESS),
    "a component without a pod for a moment stays": (RENAMED, [*served_by(LOST), *OTHER_STARTS], []),
    "an ingress of the user's does not count": (
        [*BOTH, MY_INGRESS], [*a_component("predictor", status=DOWN), MY_INGRESS], [*NEW_FRONT, *NEW_INGRESS]
    ),
    "a predictor that never came up gives way": (
        RENAMED, served_by(DOWN), [*NEW_OTHER, *NEW_INGRESS, *OLD_PREDICTOR]
    ),
    "a transformer without a pod stays with its predictor": (
        MOVED, [*PREDICTOR, *a_component("transformer", status=LOST, calls="predictor"), BOTH[-1]], NEW_OTHER
    ),
    "another predictor starts": (RENAMED, ALONE, NEW_OTHER),
    "another predictor is waited for": (RENAMED, [*ALONE, *OTHER_STARTS], []),
    "another predictor takes over": (RENAMED, [*ALONE, *OTHER], NEW_INGRESS),
    "a transformer stays while another predictor starts": (MOVED, BOTH, NEW_OTHER),
    "a transformer stays until another predictor is up": (MOVED, [*BOTH, *OTHER_STARTS], []),
    "a transformer moves to another predictor": (
        MOVED, [*BOTH, *OTHER], ["PATCH Deployment transformer", *NEW_INGRESS]
    ),
    "a component that never served goes": (ALONE, [*a_component("transformer", status=DOWN), *ALONE], OLD_FRONT),
    "all children of a stopped service go": ([], ALONE, [*OLD_PREDICTOR, "DELETE Ingress torchserve"]),
    "an ingress that is not rendered any more goes": (PREDICTOR, ALONE, ["DELETE Ingress torchserve"]),
}  # fmt: skip


@pytest.mark.parametrize(("wanted", "there", "sent"), AT_ONCE.values(), ids=AT_ONCE.keys())
def test_at_once(wanted: list[Manifest], there: list[Manifest], sent: list[str]) -> None:
    assert due(wanted, there) == [sent]


STARTS = a_component("explainer", status=DOWN, calls="predictor")
EXPLAINED = [*PREDICTOR, *STARTS, an_ingress("predictor", "explainer")]
EDITED = [*a_component("predictor", calls="something"), ALONE[-1]]
FRONT_LEFT = [*TRANSFORMER, *ALONE]
FRONT_LEFT_ROLLING = [*TRANSFORMER, *served_by(ROLLING)]

DRAINED: dict[str, tuple[list[Manifest], list[list[Manifest]], list[list[str]]]] = {
    "a component without traffic goes": (ALONE, [BOTH, FRONT_LEFT, FRONT_LEFT], [NEW_INGRESS, [], OLD_FRONT]),
    "a transformer waits for no rollout that may need its resources": (
        ALONE, [FRONT_LEFT_ROLLING] * 2, [[], OLD_FRONT]
    ),
    "other changes do not prolong the period": (
        EDITED, [FRONT_LEFT] * 2, [["PATCH Deployment predictor"], ["PATCH Deployment predictor", *OLD_FRONT]]
    ),
    "what the ingress routes to stays": (EXPLAINED, [[*BOTH, *STARTS]] * 2, [[], []]),
    "the autoscaler of a component that is replaced stays as long": (
        RENAMED,
        [[*ALONE, HPA], [*RENAMED, *PREDICTOR, HPA], [*RENAMED, *PREDICTOR, HPA]],
        [NEW_OTHER, [], [*OLD_PREDICTOR, "DELETE HorizontalPodAutoscaler predictor"]],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("wanted", "there", "sent"), DRAINED.values(), ids=DRAINED.keys())
def test_after_each_drain_period(wanted: list[Manifest], there: list[list[Manifest]], sent: list[list[str]]) -> None:
    assert due(wanted, *there) == sent


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
    wanted = [*MOVED[:-1], *a_component("explainer", calls="other"), MOVED[-1]]
    names = {child["metadata"]["name"] for child in rolling}
    there = [*PREDICTOR, *(child for child in wanted if child["metadata"]["name"] not in names), *rolling]

    assert due(wanted, there, there)[1] == (OLD_PREDICTOR if left else [])


@pytest.mark.parametrize(
    ("wanted", "there", "held"),
    [
        (BOTH, [], False),
        (BOTH, ALONE, True),
        (BOTH, [*ALONE, *TRANSFORMER], False),
        (OTHER, PREDICTOR, True),
        (OTHER, [*PREDICTOR, *OTHER], False),
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


ROUTED = [*PREDICTOR, a_route("predictor")]
ROUTED_BY_GRPC = [*PREDICTOR, a_route("predictor", "GRPCRoute")]
FRONT_ROUTED = [*TRANSFORMER, a_route("transformer"), a_route("transformer", name="torchserve-transformer")]
OWN_ROUTE = a_route("predictor", name="torchserve-predictor")
NEW_ROUTE = ["PATCH HTTPRoute torchserve"]

ROUTES: dict[str, tuple[list[Manifest], list[list[Manifest]], list[list[str]]]] = {
    "an ingress stays until its HTTPRoute is accepted, and for a drain period": (
        ROUTED,
        [ALONE, [*ALONE, a_route("predictor", status={})], [*ALONE, ROUTED[-1]], [*ALONE, ROUTED[-1]]],
        [NEW_ROUTE, [], [], ["DELETE Ingress torchserve"]],
    ),
    "HTTPRoutes stay for a drain period when an ingress replaces them": (
        ALONE,
        [ROUTED, [*ROUTED, ALONE[-1]], [*ROUTED, ALONE[-1]]],
        [NEW_INGRESS, [], ["DELETE HTTPRoute torchserve"]],
    ),
    "a GRPCRoute replaces an HTTPRoute at once, as no gateway accepts both": (
        ROUTED_BY_GRPC, [ROUTED], [["PATCH GRPCRoute torchserve", "DELETE HTTPRoute torchserve"]]
    ),
    "an HTTPRoute moves to a new component once it is rolled out": (
        [*PREDICTOR, *TRANSFORMER, a_route("transformer"), OWN_ROUTE],
        [[*ROUTED, OWN_ROUTE], [*ROUTED, OWN_ROUTE, *TRANSFORMER]],
        [NEW_FRONT, NEW_ROUTE],
    ),
    "the HTTPRoute of a removed component leaves before the component": (
        ROUTED,
        [[*PREDICTOR, *FRONT_ROUTED], [*ROUTED, *TRANSFORMER], [*ROUTED, *TRANSFORMER]],
        [[*NEW_ROUTE, "DELETE HTTPRoute torchserve-transformer"], [], OLD_FRONT],
    ),
    "HTTPRoutes of a removed component stay while their traffic is held": (
        [*OTHER, a_route("other")], [[*PREDICTOR, *FRONT_ROUTED]], [NEW_OTHER]
    ),
    "a component that leaves while the kind of route changes goes a drain period after the old routes": (
        ROUTED,
        [[*BOTH, ROUTED[-1]]] * 2 + [[*ROUTED, *TRANSFORMER]] * 2,
        [[], ["DELETE Ingress torchserve"], [], OLD_FRONT],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("wanted", "there", "sent"), ROUTES.values(), ids=ROUTES.keys())
def test_routes(wanted: list[Manifest], there: list[list[Manifest]], sent: list[list[str]]) -> None:
    assert due(wanted, *there) == sent


# --- who may call a component -----------------------------------------------------------------------------


def a_policy(name: str, allowed: str) -> Manifest:
    return an_object("NetworkPolicy", name, name, spec={"allowed": allowed})


CLOSED = [*BOTH[:-1], an_ingress("transformer"), a_policy("predictor", "transformer"), a_policy("transformer", "all")]
OPEN = [*ALONE, a_policy("predictor", "all")]
CLOSES = "PATCH NetworkPolicy predictor"


def test_a_predictor_is_closed_after_traffic_has_left_it_for_its_transformer() -> None:
    routed = [*PREDICTOR, *TRANSFORMER, an_ingress("transformer"), OPEN[-1], CLOSED[-1]]

    assert due(CLOSED, OPEN) == [[*NEW_FRONT, "PATCH NetworkPolicy transformer"]]
    assert due(CLOSED, [*OPEN, *FRONT_ROLLS, CLOSED[-1]], [*OPEN, *TRANSFORMER, CLOSED[-1]], routed, routed) == [
        [], NEW_INGRESS, [], [CLOSES],
    ]  # fmt: skip


@pytest.mark.parametrize(("wanted", "there"), [(OPEN, CLOSED), (CLOSED, [])], ids=["traffic again", "a first service"])
def test_a_policy_that_takes_no_traffic_away_is_sent_at_once(wanted: list[Manifest], there: list[Manifest]) -> None:
    assert CLOSES in due(wanted, there)[0]
