"""Whoever decides about a service decides the same: the operator, `isvc diff`, `isvc migrate` and `isvc run`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from isvc.diff.dry_run import DryRun
from isvc.diff.errors import DiffFailed
from isvc.migrate.objects import LiveObjects
from isvc.migrate.plan import Level, PlanLine
from isvc.migrate.read import MigrationScope, make_plan
from isvc.run.check import check
from isvc.run.documents import YamlText, parse_documents
from isvc_operator.api.kinds import Role, kind_named, with_role
from isvc_operator.controller.reconcile import Reconciler
from isvc_operator.decide import Decision, Inputs, Memo, decide, made_anew
from isvc_operator.kube.objects import ObjectReader
from isvc_operator.manifests import ServiceKey
from tests.support.builders import NAMESPACE, a_format, a_ready_pod, a_runtime_body, a_service_body
from tests.support.credentials import a_secret, an_account
from tests.support.fakes import FakeKubeApi
from tests.support.reconcile_fixture import Cluster, cluster_with

AUTOSCALER = {"serving.kserve.io/autoscalerClass": "keda"}
STOPPED = {"serving.kserve.io/stop": "true"}
# By what they are to show; the one that requests a canary serves already.
SERVICES = {
    "plain": a_service_body("plain", uid="plain"),
    "torchserve": a_service_body(generation=2, model={"args": ["--debug"]}, predictor={"canaryTrafficPercent": 20}),
    "scaled": a_service_body("scaled", uid="scaled", annotations=AUTOSCALER, predictor={"maxReplicas": 3}),
    "guarded": a_service_body("guarded", uid="guarded", predictor={"minReplicas": 2}),
    "private": a_service_body("private", uid="private", model={"storageUri": "s3://models/bert"}),
    "of-broken": a_service_body("of-broken", uid="of-broken", model={"runtime": "broken"}),
    "of-none": a_service_body("of-none", uid="of-none", model={"modelFormat": {"name": "mystery"}}),
    "stopped": a_service_body("stopped", uid="stopped", annotations=STOPPED),
    "invalid": a_service_body("invalid", uid="invalid", model=None),
}
RUNTIMES = (
    a_runtime_body(),
    {**a_runtime_body("broken", formats=[a_format("onnx")]), "spec": {"containers": "none"}},
)
OWN_BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "mine", "namespace": NAMESPACE},
    "spec": {"minAvailable": 1, "selector": {"matchLabels": {"serving.kserve.io/inferenceservice": "guarded"}}},
}
PLACES = {
    "operator": "isvc_operator.controller.reconcile.decide",
    "diff": "isvc.diff.dry_run.decide",
    "migrate": "isvc.migrate.read.decide",
    "laptop": "isvc.run.children.decide",
}


@dataclass
class Decided:
    """What each of them has decided from, and what, by the names of the services."""

    inputs: dict[str, dict[str, Inputs]] = field(default_factory=lambda: {user: {} for user in PLACES})
    decisions: dict[str, dict[str, Decision]] = field(default_factory=lambda: {user: {} for user in PLACES})
    plans: dict[str, tuple[PlanLine, ...]] = field(default_factory=dict)


@pytest.fixture(params=[False, True], ids=["without KEDA", "with KEDA"])
async def decided(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Decided:
    """All of them decide about the same services, the operator last: it alone writes."""
    found = Decided()
    cluster = await a_cluster(keda=request.param)
    for user, place in PLACES.items():
        monkeypatch.setattr(place, recording(found, user))
    await by_diff(cluster.api)
    plan = await make_plan(LiveObjects(cluster.api), MigrationScope(), cluster.seconds)
    found.plans = {service.name: service.lines for service in plan.services}
    by_files(cluster.api)
    await by_reconciling(cluster.reconciler)
    return found


def recording(found: Decided, user: str) -> Any:
    def recorded(inputs: Inputs, memo: Memo = made_anew) -> Decision:
        decision = decide(inputs, memo)
        found.inputs[user].setdefault(inputs.service.metadata.name, inputs)
        return found.decisions[user].setdefault(inputs.service.metadata.name, decision)

    return recorded


async def a_cluster(*, keda: bool) -> Cluster:
    """An API server that has all of this, and the operator's watches of it."""
    before = a_service_body()
    cluster = cluster_with(before, *RUNTIMES)
    await cluster.reconcile()
    cluster.roll_out(a_ready_pod())
    await cluster.settle()
    status = cluster.service["status"]
    for body in (*SERVICES.values(), *RUNTIMES, OWN_BUDGET, a_secret(), an_account("s3")):
        cluster.api.put({**body, "status": status} if body["metadata"]["name"] == "torchserve" else body)
    if keda:
        cluster.api.objects[kind_named("ScaledObject").api_path] = {"kind": "APIResourceList"}
    watched = {kind.name for kind in with_role(Role.SERVICE, Role.INPUT, Role.CHILD)}
    for item in cluster.api.objects.values():
        if item["kind"] in watched:
            cluster.cache.put(item)
    return cluster


def stored(api: FakeKubeApi) -> Iterator[dict[str, Any]]:
    for name in SERVICES:
        body = api.get("InferenceService", NAMESPACE, name)
        assert body is not None
        yield body


def as_text(bodies: Iterator[dict[str, Any]]) -> list[YamlText]:
    return [YamlText("services.yaml", "\n---\n".join(map(json.dumps, bodies)))]


def as_written(body: dict[str, Any]) -> dict[str, Any]:
    """The service as its file has it."""
    written = ("name", "namespace", "annotations")
    metadata = {name: value for name, value in body["metadata"].items() if name in written}
    return {"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": metadata, "spec": body["spec"]}


async def by_diff(api: FakeKubeApi) -> None:
    """One file after the other: the diff of one that cannot be served ends."""
    for body in stored(api):
        reader = ObjectReader(api, lambda: 0.0)
        given = parse_documents(as_text(iter([as_written(body)])), NAMESPACE)
        with suppress(DiffFailed):
            async for _ in DryRun(api, reader, "isvc-system").changes(given):
                pass


def by_files(api: FakeKubeApi) -> None:
    readable = [body for body in RUNTIMES if body["metadata"]["name"] != "broken"]
    objects = [a_secret(), an_account("s3")]
    check(as_text(iter([*stored(api), *readable, *objects])), NAMESPACE, installed=(), settings=None)


async def by_reconciling(reconciler: Reconciler) -> None:
    for name in SERVICES:
        await reconciler.reconcile(ServiceKey(NAMESPACE, name))


@pytest.mark.parametrize("user", ["diff", "migrate"])
def test_in_a_cluster_all_decide_as_the_operator_does(decided: Decided, user: str) -> None:
    assert decided.inputs[user] == decided.inputs["operator"]
    assert decided.decisions[user] == decided.decisions["operator"]
    assert set(decided.decisions[user]) == set(SERVICES)


def test_from_files_all_that_needs_no_cluster_is_rendered_as_by_the_operator(decided: Decided) -> None:
    operator, laptop = decided.decisions["operator"], decided.decisions["laptop"]
    # There are no budgets of others beside files, and KEDA is taken to be there. What the API server would refuse, as
    # it does a service with nothing to serve and a broken runtime, is not decided about.
    of_cluster = {"guarded", "of-broken", "of-none", "invalid"}
    if not decided.inputs["operator"]["scaled"].keda:
        of_cluster.add("scaled")

    for name in set(SERVICES) - of_cluster:
        assert (laptop[name].rendered, laptop[name].problem) == (operator[name].rendered, operator[name].problem), name


def test_the_services_show_what_they_are_there_for(decided: Decided) -> None:
    """Otherwise the comparison of decisions would compare little."""
    of, inputs = decided.decisions["operator"], decided.inputs["operator"]

    assert [child["kind"] for child in of["plain"].children] == ["Deployment", "Service", "Ingress"]
    assert list(of["torchserve"].paused) == ["predictor"]
    assert of["torchserve"].children[0] != of["torchserve"].rendered[0]
    assert ("ScaledObject" in [child["kind"] for child in of["scaled"].children]) is inputs["scaled"].keda
    assert "PodDisruptionBudget" not in [child["kind"] for child in of["guarded"].children]
    assert [reference.kind for reference in inputs["private"].objects] == ["ServiceAccount", "Secret"]
    for name in ("of-broken", "of-none"):
        problem = of[name].problem
        assert problem is not None
        assert "ClusterServingRuntime broken is not valid" in problem.message
    assert (of["stopped"].resolved, of["stopped"].children) == (None, [])
    assert of["invalid"].problem is not None


def test_a_plan_says_what_keeps_the_operator_from_serving(decided: Decided) -> None:
    operator = decided.decisions["operator"]

    for name in ("of-broken", "of-none", "invalid"):
        problem = operator[name].problem
        assert problem is not None
        assert decided.plans[name] == (PlanLine(Level.BLOCKING, problem.message),)
