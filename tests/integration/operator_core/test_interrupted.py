"""A reconcile that is interrupted at any of its calls, on a real API server: what comes of the service in the end.

In each story the operator is killed after each of its writes, once in a run; is killed after each of its calls;
and goes on while each of its calls fails once, before or after it has arrived. A killed operator is followed by one
that knows nothing but what the API server has.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pytest

from isvc_operator.api.kinds import Role, with_role
from isvc_operator.api.names import ANNOTATION_RENDERED, ANNOTATION_TEMPLATE
from isvc_operator.config import OperatorConfig
from isvc_operator.controller.reconcile import RESYNC, Reconciler
from isvc_operator.kube.client import KubeApi, connect
from isvc_operator.kube.errors import KubeError
from isvc_operator.kube.informer.cache import Cache, ObjectKey, key_of
from isvc_operator.kube.requests import MERGE_PATCH, ApiRequest, path_of
from isvc_operator.manifests import Manifest, ServiceKey
from tests.integration.operator_core.conftest import new_namespace
from tests.support.apiserver import ApiServer, install_runtime
from tests.support.builders import SHIPPED_RUNTIME
from tests.support.fake_rollouts import finish_rollouts
from tests.support.fakes import Seconds, target_of
from tests.support.kserves_children import an_autoscaler, an_ingress, childs_metadata, kserves_deployment, owned_by
from tests.support.namespace import Namespace, story_service
from tests.support.operator_process import operator
from tests.support.yaml_files import document

SERVICE = "torchserve"
KINDS = tuple(kind.name for kind in with_role(Role.SERVICE, Role.CHILD) if not kind.optional)
WRAPPER = {"containers": [{"image": "registry.example/wrapper:1"}]}
KSERVES_FINALIZER = "inferenceservice.finalizers"
NOW = "2026-11-23T12:00:00Z"
THE_RUNTIME = document(SHIPPED_RUNTIME)
THE_RUNTIME["metadata"] |= {"uid": "runtime", "resourceVersion": "1"}
WITHIN = 60.0  # seconds
ROUNDS = 60  # more than any story needs


class Killed(BaseException):
    """The process has ended: nothing of it goes on."""


class Cut(Enum):
    """What becomes of a call."""

    NONE = "it arrives"
    KILLED = "the operator is killed before it is sent"
    KILLED_AFTER = "the operator is killed when it has arrived"
    NOT_SENT = "it does not arrive"
    RESPONSE_LOST = "its response is lost"


@dataclass
class Interrupted:
    """A KubeApi whose calls are cut off; they are sent one at a time, in the order in which they were begun.

    ``cut`` gets each call, and the number of those before it.
    """

    api: KubeApi
    cut: Callable[[str, int], Cut]
    objects: Objects
    calls: list[str] = field(default_factory=list)
    dead: bool = False
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def send(self, request: ApiRequest) -> str:
        async with self.turn:
            if self.dead:
                raise Killed
            call = f"{request.method} {target_of(request).partition('/namespaces/')[2].partition('/')[2]}"
            cut = self.cut(call, len(self.calls))
            self.calls.append(call)
            self.dead = cut in (Cut.KILLED, Cut.KILLED_AFTER)
            if cut in (Cut.NONE, Cut.KILLED_AFTER, Cut.RESPONSE_LOST):
                response = await self.api.send(request)
                self.objects.written(request)
            if self.dead:
                raise Killed
            if cut is Cut.NONE:
                return response
            raise KubeError(0, "no response from the API server")


@dataclass
class Objects:
    """The objects of a namespace; those of a kind are listed again once the operator has written one of them.

    Whoever writes past the operator clears ``known``.
    """

    server: ApiServer
    namespace: str
    known: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def written(self, request: ApiRequest) -> None:
        if request.method != "GET":
            for kind in KINDS:
                if request.path.startswith(path_of(kind, self.namespace)):
                    self.known.pop(kind, None)

    def list(self) -> dict[ObjectKey, dict[str, Any]]:
        for kind in KINDS:
            if kind not in self.known:
                self.known[kind] = objects_in(self.server, self.namespace, kind)
        return {key_of(item): item for kind in KINDS for item in self.known[kind]}


def never(call: str, before: int) -> Cut:
    return Cut.NONE


def killed_after(calls: int) -> Callable[[str, int], Cut]:
    """Kill the operator when it has made so many calls."""
    return lambda _call, before: Cut.KILLED if before == calls else Cut.NONE


def each_once(how: Cut) -> Callable[[str, int], Cut]:
    """Cut off each call when it is made for the first time."""
    seen = set[str]()

    def cut(call: str, _before: int) -> Cut:
        first = call not in seen
        seen.add(call)
        return how if first else Cut.NONE

    return cut


class Operator:
    """An operator's process: its caches, and what it has in memory. ``seconds`` is the clock of the machine."""

    def __init__(self, api: KubeApi, objects: Objects, seconds: Seconds) -> None:
        self.key = ServiceKey(objects.namespace, SERVICE)
        self.objects = objects
        self.failures = 0
        self.again: float | None = None
        self.versions: dict[ObjectKey, str] = {}
        self.cache = Cache()
        self.cache.put(THE_RUNTIME)
        self.reconciler = Reconciler(
            api=api, cache=self.cache, config=OperatorConfig(), now=lambda: NOW, clock=seconds, home="isvc-system"
        )

    def watch(self) -> bool:
        """Let the watches catch up; returns whether their events, or the first list, queue a reconcile."""
        existing = self.objects.list()
        gone = [item for kind in KINDS for item in self.cache.of_kind(kind) if key_of(item) not in existing]
        for item in gone:
            self.cache.remove(item)
        changed = [item for key, item in existing.items() if self.versions.get(key) != _version(item)]
        news = [item for item in changed if not self.cache.knows(item)]  # the responses to its writes are not news
        for item in news:
            self.cache.put(item)
        unexpected = [item for item in news if not self.cache.was_expected(item)]
        first, self.versions = not self.versions, {key: _version(item) for key, item in existing.items()}
        return first or bool(unexpected or gone)

    async def reconcile(self) -> None:
        try:
            self.again = await self.reconciler.reconcile(self.key, self.failures)
        except KubeError:
            self.failures += 1
        else:
            self.failures = 0


def _version(item: Manifest) -> str:
    version: str = item["metadata"]["resourceVersion"]
    return version


def objects_in(server: ApiServer, namespace: str, *kinds: str) -> list[dict[str, Any]]:
    """The objects of these kinds, or of all that the stories have."""
    found = []
    for kind in kinds or KINDS:
        response = server.send("GET", path_of(kind, namespace))
        found += [{"kind": kind, "apiVersion": response["apiVersion"], **item} for item in response["items"]]
    return found


@dataclass(frozen=True)
class World:
    """A namespace, its API server, and the operator's connection to it."""

    server: ApiServer
    namespace: Namespace
    api: KubeApi
    seconds: Seconds = field(default_factory=Seconds)

    @cached_property
    def objects(self) -> Objects:
        return Objects(self.server, self.namespace.name)

    async def settle(self, cut: Callable[[str, int], Cut] = never) -> list[str]:
        """Reconcile until nothing is left to do; returns the calls. Another operator follows one that is killed."""
        self.objects.known.clear()  # the story has gone on
        api = Interrupted(self.api, cut, self.objects)
        running = Operator(api, self.objects, self.seconds)
        for _ in range(ROUNDS):
            # An operator that tries again does so before the events of its last attempt have arrived, but not forever.
            is_queued = running.failures == 1 or running.watch() or running.failures
            if not is_queued:
                if finish_rollouts(self.server, self.namespace):
                    del self.objects.known["Deployment"]
                    continue
                if running.again is None or running.again >= RESYNC:
                    return api.calls
                self.seconds.passed += running.again
            try:
                await running.reconcile()
            except Killed:
                api.dead = False
                running = Operator(api, self.objects, self.seconds)
        raise AssertionError(f"not settled after {ROUNDS} rounds")

    def state(self) -> list[Manifest]:
        """The objects of the namespace, as two runs can be compared."""
        return comparable_objects(self.server, self.namespace)


def comparable_objects(server: ApiServer, namespace: Namespace) -> list[Manifest]:
    """Every object, without what differs from one run to the next: uids, versions, times, addresses."""

    def comparable(item: dict[str, Any]) -> Manifest:
        metadata = {name: value for name, value in item["metadata"].items() if name not in _OF_ONE_RUN}
        metadata["managedFields"] = sorted(
            ({name: value for name, value in entry.items() if name != "time"} for entry in metadata["managedFields"]),
            key=lambda entry: (entry["manager"], entry["operation"], entry.get("subresource", "")),
        )
        annotations = {**metadata.get("annotations", {})}
        for name in {ANNOTATION_RENDERED, ANNOTATION_TEMPLATE} & annotations.keys():
            annotations[name] = "a digest"
        spec = {name: value for name, value in item["spec"].items() if name not in ("clusterIP", "clusterIPs")}
        found = {**item, "metadata": {**metadata, "annotations": annotations}, "spec": spec}
        text = json.dumps(found, sort_keys=True).replace(namespace.name, "NAMESPACE")
        for uid in [owner["uid"] for owner in metadata.get("ownerReferences", ())]:
            text = text.replace(uid, "OWNER")
        compared: Manifest = json.loads(text)
        return compared

    return [comparable(item) for item in objects_in(server, namespace.name)]


_OF_ONE_RUN = ("uid", "resourceVersion", "creationTimestamp")


# --- stories -------------------------------------------------------------------------------------------------


def apply(namespace: Namespace, *, predictor: dict[str, Any] | None = None, **spec: Any) -> None:
    """Apply the service, with an autoscaler, a budget and a transformer."""
    service = story_service()
    service["spec"] |= {"transformer": WRAPPER, **spec}
    service["spec"]["predictor"] |= {"minReplicas": 2, "maxReplicas": 4, **(predictor or {})}
    service["spec"] = {name: value for name, value in service["spec"].items() if value}
    namespace.apply(service)


def change(namespace: Namespace) -> None:
    model = {**story_service()["spec"]["predictor"]["model"], "args": ["--debug"]}
    apply(namespace, predictor={"model": model, "maxReplicas": 6})


def edit(namespace: Namespace, metadata: dict[str, Any]) -> None:
    path = path_of("InferenceService", namespace.name, SERVICE)
    server_of(namespace).send("PATCH", path, {"metadata": metadata}, content=MERGE_PATCH)


def delete(namespace: Namespace) -> None:
    edit(namespace, {"finalizers": [KSERVES_FINALIZER]})
    server_of(namespace).send("DELETE", path_of("InferenceService", namespace.name, SERVICE))


def left_by_kserve(namespace: Namespace) -> None:
    """A service with the children that KServe's controller has created: its Ingress lacks the service's label."""
    service = story_service()
    service["metadata"]["finalizers"] = [KSERVES_FINALIZER]
    namespace.apply(service)
    service = namespace.find("inferenceservice", SERVICE) or {}
    deployment = kserves_deployment(service)
    deployment["spec"]["replicas"] = 4
    autoscaler = an_autoscaler(childs_metadata(service), "torchserve-predictor")
    for item in (deployment, an_ingress(owned_by(service)), autoscaler):
        server_of(namespace).send("POST", f"{path_of(item['kind'], namespace.name)}?fieldManager=manager", item)


def server_of(namespace: Namespace) -> ApiServer:
    assert isinstance(namespace.server, ApiServer)
    return namespace.server


Step = Callable[[Namespace], None]
STORIES: dict[str, tuple[Step | None, Step]] = {
    "created": (None, apply),
    "changed": (apply, change),
    "without its transformer": (apply, partial(apply, transformer=None)),
    "with another predictor": (apply, partial(apply, predictor={"name": "another"})),
    "stopped": (apply, partial(edit, metadata={"annotations": {"serving.kserve.io/stop": "true"}})),
    "deleted": (apply, delete),
    "adopted from KServe": (None, left_by_kserve),
    "adopted from KServe and stopped": (
        left_by_kserve,
        partial(edit, metadata={"annotations": {"serving.kserve.io/stop": "true"}}),
    ),
}


async def tell(story: str, world: World, cut: Callable[[str, int], Cut] = never) -> list[str]:
    """Let the story happen, with the calls of its last step cut off; returns these."""
    before, step = STORIES[story]
    if before is not None:
        before(world.namespace)
        if before is apply:
            await world.settle()
    step(world.namespace)
    return await world.settle(cut)


@pytest.mark.parametrize("story", STORIES)
async def test_a_service_ends_the_same_wherever_a_call_was_cut_off(story: str, apiserver: ApiServer) -> None:
    install_runtime(apiserver)
    async with connect(str(apiserver.kubeconfig)) as api:
        world = World(apiserver, new_namespace(apiserver), api)
        calls = await tell(story, world)
        undisturbed = world.state()
        # After a read, all is as after the write before it: the next operator knows nothing of it.
        writes = [(count, call) for count, call in enumerate(calls[:-1], 1) if not call.startswith("GET")]
        cuts = {f"killed after {count}, {call}": killed_after(count) for count, call in writes}
        cuts |= {f"each once: {how.value}": each_once(how) for how in Cut if how is not Cut.NONE}
        for name, cut in cuts.items():
            world = World(apiserver, new_namespace(apiserver), api)
            await tell(story, world, cut)
            assert world.state() == undisturbed, name


def test_a_service_ends_the_same_if_its_operators_are_killed_in_the_middle_of_their_writes(
    apiserver: ApiServer, tmp_path: Path
) -> None:
    """Processes, with watches: one is killed before it has created all children, the next one after its status."""
    install_runtime(apiserver)
    namespaces = [new_namespace(apiserver), new_namespace(apiserver)]
    states = []
    for namespace, points in zip(namespaces, ((), ("before-3", "after-6")), strict=True):
        apply(namespace)
        for point in points:
            process = start(
                apiserver, tmp_path, "tests.support.killed_operator", point, f"--namespace={namespace.name}"
            )
            assert process.wait(WITHIN) == -signal.SIGKILL
        with operator(apiserver, tmp_path / "log", f"--namespace={namespace.name}"):
            for name in ("torchserve-predictor", "torchserve-transformer"):
                namespace.wait_for("deployment", name)
            finish_rollouts(apiserver, namespace)
            namespace.wait_for_condition("Ready", "True")
        states.append([without_times(item) for item in comparable_objects(apiserver, namespace)])

    assert states[1] == states[0]


def start(server: ApiServer, folder: Path, module: str, *arguments: str) -> subprocess.Popen[bytes]:
    env = {**os.environ, "KUBECONFIG": str(server.kubeconfig)}
    with (folder / "log").open("ab") as log:
        return subprocess.Popen([sys.executable, "-m", module, *arguments], env=env, stdout=log, stderr=log)


def without_times(item: Manifest) -> Manifest:
    """The service without the times of its conditions, which are those of this machine."""
    conditions = [{**entry, "lastTransitionTime": ""} for entry in item.get("status", {}).get("conditions", ())]
    return {**item, "status": {**item["status"], "conditions": conditions}} if conditions else item
