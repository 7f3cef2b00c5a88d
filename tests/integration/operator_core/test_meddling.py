"""Others who change objects of a service between two calls of a reconcile, on a real API server: it ends right.

Each change happens before each of the calls, so also between what was gathered and the first write, and between the
last write of a child and that of the status.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from isvc_operator.kube.client import connect
from isvc_operator.kube.requests import MERGE_PATCH, path_of
from isvc_operator.manifests import Manifest
from tests.integration.operator_core.conftest import new_namespace
from tests.integration.operator_core.test_interrupted import Cut, Interrupted, Operator, World, never, objects_in
from tests.support.apiserver import ApiServer, install_runtime
from tests.support.namespace import story_service

SERVICE, PREDICTOR = "torchserve", "torchserve-predictor"
ATTEMPTS = 3  # until the service says what is wrong
Meddle = Callable[[ApiServer, str], None]


@pytest.fixture
async def world(apiserver: ApiServer) -> AsyncIterator[World]:
    install_runtime(apiserver)
    async with connect(str(apiserver.kubeconfig)) as api:
        yield World(apiserver, new_namespace(apiserver), api)


def anew(world: World) -> World:
    return World(world.server, new_namespace(world.server), world.api)


def before_call(number: int, meddle: Meddle, world: World) -> Callable[[str, int], Cut]:
    """Meddle once, when so many calls were made."""

    def cut(_call: str, before: int) -> Cut:
        if before == number:
            meddle(world.server, world.namespace.name)
            world.objects.known.clear()
        return Cut.NONE

    return cut


async def begin(story: str, world: World) -> None:
    """Create the service, or change one that all children exist of."""
    world.namespace.apply(story_service())
    if story == "changed":
        await world.settle()
        world.namespace.apply_story(annotations={"note": "changed"})


def outcome(world: World) -> list[Manifest]:
    """The objects, without how often, when and by whom they were written."""

    def lasting(item: dict[str, Any]) -> Manifest:
        metadata = {name: item["metadata"].get(name) for name in ("name", "labels", "annotations", "ownerReferences")}
        status = {name: value for name, value in item.get("status", {}).items() if name != "observedGeneration"}
        return {**item, "metadata": metadata, "status": status}

    return [lasting(dict(item)) for item in world.state()]


# --- what others do -----------------------------------------------------------------------------------------


def delete(kind: str, name: str) -> Meddle:
    def meddle(server: ApiServer, namespace: str) -> None:
        if server.find(namespace, kind, name):
            server.send("DELETE", path_of(kind, namespace, name))

    return meddle


def patch(kind: str, name: str, spec: dict[str, Any]) -> Meddle:
    def meddle(server: ApiServer, namespace: str) -> None:
        if server.find(namespace, kind, name):
            server.send("PATCH", path_of(kind, namespace, name), {"spec": spec}, content=MERGE_PATCH)

    return meddle


def create_again(server: ApiServer, namespace: str) -> None:
    """Delete the service and create it with the same name; the garbage collector deletes what it owned."""
    body = server.find(namespace, "InferenceService", SERVICE)
    assert body is not None
    server.send("DELETE", path_of("InferenceService", namespace, SERVICE))
    for item in objects_in(server, namespace):
        if item["kind"] != "InferenceService":
            server.send("DELETE", path_of(item["kind"], namespace, item["metadata"]["name"]))
    metadata = {"name": SERVICE}
    server.send("POST", path_of("InferenceService", namespace), {**body, "metadata": metadata, "status": {}})


MEDDLING: dict[str, Meddle] = {
    "the Deployment is deleted": delete("Deployment", PREDICTOR),
    "the Ingress is deleted": delete("Ingress", SERVICE),
    "the Deployment is changed": patch(
        "Deployment", PREDICTOR, {"template": {"metadata": {"labels": {"component": "theirs"}}}}
    ),
    "the Service is changed": patch("Service", PREDICTOR, {"selector": {"app": "theirs"}}),
    "the service is created again": create_again,
}


@pytest.mark.parametrize(
    ("story", "what"),
    [
        ("created", "the Deployment is deleted"),
        ("created", "the Service is changed"),
        ("created", "the service is created again"),
        ("changed", "the Deployment is changed"),
        ("changed", "the Ingress is deleted"),
        ("changed", "the service is created again"),
    ],
)
async def test_a_service_ends_the_same(world: World, story: str, what: str) -> None:
    await begin(story, world)
    calls = await world.settle()
    undisturbed = outcome(world)
    for number, call in enumerate(calls):
        disturbed = anew(world)
        await begin(story, disturbed)
        await disturbed.settle(before_call(number, MEDDLING[what], disturbed))
        assert outcome(disturbed) == undisturbed, f"before {call}"


def take_the_name(server: ApiServer, namespace: str) -> None:
    """Somebody deletes the Service, and creates one of their own under its name."""
    delete("Service", PREDICTOR)(server, namespace)
    spec = {"selector": {"app": "theirs"}, "ports": [{"port": 80, "name": "theirs"}]}
    server.send("POST", path_of("Service", namespace), {"metadata": {"name": PREDICTOR}, "spec": spec})


@pytest.mark.parametrize("story", ["created", "changed"])
async def test_an_object_of_somebody_else_is_left_alone_whenever_it_appears(world: World, story: str) -> None:
    await begin(story, world)
    undisturbed = Interrupted(world.api, never, world.objects)
    await Operator(undisturbed, world.objects, world.seconds).reconcile()
    for number, call in enumerate(undisturbed.calls):
        disturbed = anew(world)
        namespace = disturbed.namespace
        await begin(story, disturbed)
        api = Interrupted(disturbed.api, before_call(number, take_the_name, disturbed), disturbed.objects)
        running = Operator(api, disturbed.objects, disturbed.seconds)
        for _ in range(ATTEMPTS):
            await running.reconcile()
        theirs = namespace.wait_for("service", PREDICTOR)
        assert theirs["spec"]["selector"] == {"app": "theirs"}, f"before {call}"
        assert "ownerReferences" not in theirs["metadata"]
        condition = namespace.condition("Ready")
        assert (condition["status"], condition["reason"]) == ("False", "ReconcileFailed")
        assert f"Service {PREDICTOR} exists in namespace {namespace.name}" in condition["message"]
