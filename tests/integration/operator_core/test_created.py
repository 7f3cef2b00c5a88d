"""Children that were created, not applied, on a real API server: what their first update makes of each field."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from isvc_operator.controller.children import apply_changes
from isvc_operator.kube import requests
from isvc_operator.kube.client import KubeApi, connect
from isvc_operator.kube.errors import NotOurs, RequestRefused
from isvc_operator.kube.informer.cache import Cache
from isvc_operator.kube.requests import ApiRequest, decode, path_of
from isvc_operator.manifests import Manifest, controller_of, name_of, updated_by
from isvc_operator.plan.changes import plan_changes
from tests.support.apiserver import ApiServer
from tests.support.builders import SERVICE_UID, a_service, the_children
from tests.support.fakes import target_of, unnoted
from tests.support.namespace import Namespace
from tests.support.reconcile_fixture import first_update

STRATEGIC = "application/strategic-merge-patch+json"
PREDICTOR = "torchserve-predictor"
DEPLOYMENT = f"deployments/{PREDICTOR}"
SCALED = {"minReplicas": 2, "maxReplicas": 6}


@dataclass
class Counted:
    """A KubeApi whose calls are noted, each with the object that it is about."""

    api: KubeApi
    calls: list[str] = field(default_factory=list)

    async def send(self, request: ApiRequest) -> str:
        self.calls.append(f"{request.method} {target_of(request).partition('/namespaces/')[2].partition('/')[2]}")
        return await self.api.send(request)


@dataclass(frozen=True)
class World:
    """The children of one service, by an operator that hears of no watch."""

    server: ApiServer
    namespace: str
    api: Counted
    cache: Cache

    async def render(self, uid: str = SERVICE_UID, **fields: Any) -> list[str]:
        """Make the children what is rendered for the service; return the calls to the Deployment."""
        service = a_service(namespace=self.namespace, uid=uid, **fields)
        observed = [item for kind in self.cache.kinds() for item in self.cache.of_kind(kind)]
        before = len(self.api.calls)
        await apply_changes(
            self.api, self.cache, plan_changes([*the_children(service).values()], observed, uid), unnoted
        )
        return [call for call in self.api.calls[before:] if DEPLOYMENT in call]

    async def deployment(self) -> Manifest:
        found: Manifest = decode(await self.api.send(requests.get("Deployment", self.namespace, PREDICTOR)))
        return found

    def patch(self, patch: Mapping[str, Any], subresource: str = "") -> None:
        """What another client does to the Deployment."""
        uri = f"{path_of('Deployment', self.namespace, PREDICTOR)}{subresource}?fieldManager=another"
        self.server.send("PATCH", uri, patch, content=STRATEGIC if not subresource else requests.MERGE_PATCH)


@pytest.fixture
async def world(apiserver: ApiServer, namespace: Namespace) -> AsyncIterator[World]:
    async with connect(str(apiserver.kubeconfig)) as api:
        yield World(apiserver, namespace.name, Counted(api), Cache())


def labels(deployment: Manifest) -> set[str]:
    return {name for name in deployment["metadata"]["labels"] if name in ("first", "both", "second", "theirs")}


async def test_the_first_update_adopts_the_fields_and_the_next_one_does_not(world: World) -> None:
    created = await world.render()
    first = await world.render(labels={"team": "a"})
    second = await world.render(labels={"team": "b"})

    assert (created, first, second) == (
        [f"POST {DEPLOYMENT}"],
        first_update(DEPLOYMENT),
        [f"PATCH {DEPLOYMENT}"],
    )


async def test_what_is_no_longer_rendered_goes_and_what_others_have_set_stays(world: World) -> None:
    await world.render(labels={"first": "yes", "both": "yes"}, model={"args": ["--debug"]})
    sidecar = {"name": "sidecar", "image": "sidecar:1"}
    pod = {"containers": [sidecar], "terminationGracePeriodSeconds": 7}
    world.patch({"metadata": {"labels": {"theirs": "yes"}}, "spec": {"paused": True, "template": {"spec": pod}}})

    await world.render(labels={"both": "yes", "second": "yes"})

    deployment = await world.deployment()
    containers = {item["name"]: item for item in deployment["spec"]["template"]["spec"]["containers"]}
    assert labels(deployment) == {"both", "second", "theirs"}
    assert "args" not in containers["kserve-container"]
    assert (containers["sidecar"]["image"], deployment["spec"]["paused"]) == ("sidecar:1", True)
    assert updated_by("isvc-operator", deployment) == []


async def test_the_pods_with_which_it_was_created_stay_where_no_number_is_rendered(world: World) -> None:
    await world.render(predictor=SCALED)
    await world.render(predictor=SCALED, labels={"team": "a"})

    assert (await world.deployment())["spec"]["replicas"] == 2


async def test_a_creation_that_is_sent_again_writes_nothing(world: World) -> None:
    await world.render()
    before = await world.deployment()
    again = World(world.server, world.namespace, world.api, Cache())

    assert await again.render() == [f"POST {DEPLOYMENT}", f"GET {DEPLOYMENT}"]
    assert await world.deployment() == before


async def test_a_creation_that_is_sent_again_with_another_spec_leaves_nothing_of_the_first(world: World) -> None:
    await world.render(labels={"first": "yes"})
    again = World(world.server, world.namespace, world.api, Cache())

    await again.render(labels={"second": "yes"})

    assert labels(await world.deployment()) == {"second"}


async def test_what_a_deleted_service_has_left_becomes_the_child_of_one_of_the_same_name(world: World) -> None:
    await world.render(labels={"first": "yes"})
    anew = World(world.server, world.namespace, world.api, Cache())

    await anew.render(uid="another-uid", labels={"second": "yes"})

    deployment = await world.deployment()
    assert (controller_of(deployment)["uid"], labels(deployment)) == ("another-uid", {"second"})
    assert len(deployment["metadata"]["ownerReferences"]) == 1


@pytest.mark.parametrize("kind", ["Deployment", "Service", "Ingress"])
async def test_an_object_of_nobody_is_not_taken_even_if_no_field_differs(world: World, kind: str) -> None:
    child = the_children(a_service(namespace=world.namespace))[kind]
    theirs = {**child, "metadata": {"name": name_of(child), "namespace": world.namespace}}
    world.server.send("POST", f"{path_of(kind, world.namespace)}?fieldManager=another", theirs)
    (change,) = plan_changes([child], [], SERVICE_UID)

    with pytest.raises(NotOurs, match="it has no owner"):
        await apply_changes(world.api, world.cache, [change], unnoted)

    found = decode(await world.api.send(requests.get(kind, world.namespace, name_of(child))))
    assert "ownerReferences" not in found["metadata"]


async def test_a_field_that_the_api_server_does_not_know_is_refused(world: World) -> None:
    service = the_children(a_service(namespace=world.namespace))["Service"]

    with pytest.raises(RequestRefused, match=r'unknown field "spec\.bogus"'):
        await world.api.send(requests.create({**service, "spec": {**service["spec"], "bogus": 1}}))


async def test_a_child_that_the_last_release_has_applied_is_updated_at_once(world: World) -> None:
    children = the_children(a_service(namespace=world.namespace, labels={"first": "yes"}))
    (change, *_) = plan_changes([*children.values()], [], SERVICE_UID)
    world.cache.put(decode(await world.api.send(requests.apply(change.manifest, force=False))))

    assert await world.render(labels={"second": "yes"}) == [f"PATCH {DEPLOYMENT}"]
    assert labels(await world.deployment()) == {"second"}
