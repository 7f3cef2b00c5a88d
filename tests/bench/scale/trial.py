"""One program on a cluster of its own: services are created, and then everything that may happen to them."""

from __future__ import annotations

import contextlib
import json
import logging
import tempfile
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import psutil

from tests.bench.scale.calls import Calls
from tests.bench.scale.client import STRATEGIC, Client, Watched, watching
from tests.bench.scale.cluster import Cluster, Memory, cpu_seconds, running_cluster
from tests.bench.scale.contenders import Running
from tests.bench.scale.following import Following
from tests.bench.scale.services import (
    IMAGE,
    RUNTIME,
    RUNTIMES,
    create_claim,
    failed_status,
    has_condition,
    runtime,
    service,
    services_path,
)  # fmt: skip
from tests.support.apiserver import ApiServer
from tests.support.waiting import eventually

log = logging.getLogger(__name__)

NAMESPACE = "team"
_ONE_LOG = ("--audit-log-maxsize=100000",)  # MB; it is read seldom, and would be in several files otherwise
_QUIET = 3.0  # seconds without a call of the program: it is done
_READY_TIMEOUT = 1200.0  # seconds for a thousand services, and in proportion for more
_STARTS = 2.0  # seconds until a server fails: all has been said about its pod by then
_SEEN_TIMEOUT = 20.0  # seconds for a failure to be named
ELSEWHERE = {"apiVersion": "v1", "kind": "Node", "name": "elsewhere"}
NAMED = ("CrashLoopBackOff", "no such layer", "exit code", "exitCode")  # in a status that names the failure


class Contender(Protocol):
    """A program that makes the children of services."""

    @property
    def name(self) -> str: ...
    @property
    def user_agents(self) -> tuple[str, ...]: ...

    def install(self, server: ApiServer) -> None:
        """What it needs on the cluster."""

    def running(self, cluster: Cluster) -> contextlib.AbstractContextManager[Running]:
        """Its process, once it has seen the cluster."""


@dataclass(frozen=True)
class Created:
    """Seconds from the first request of the client; CPU in seconds; memory in MiB; calls from there to the end."""

    services: int
    client: float  # until the client was done
    children: float
    ready: float
    calls: dict[str, int]
    cpu: float
    api_server_cpu: float
    rss: float  # the most
    yardstick: float  # seconds for a fixed computation just before

    @property
    def calls_each(self) -> float:
        return round(sum(self.calls.values()) / self.services, 2)


@dataclass(frozen=True)
class Restarted:
    """``caught_up``: seconds from the start of the process until each service was reconciled and none waits."""

    caught_up: float
    calls: dict[str, int]
    cpu: float
    rss: float


@dataclass(frozen=True)
class Idle:
    """While nothing happened."""

    seconds: float
    calls: dict[str, int]
    cores: float


@dataclass(frozen=True)
class Rolled:
    """After the image of the runtime was changed. ``wrong``: services whose last status is not that of the new pods."""

    first: float  # seconds until the first Deployment was changed
    changed: float  # until the last one was
    in_a_minute: int  # the most Deployments that were
    available: float  # until each has its new pod available
    wrong: int
    calls: dict[str, int]


@dataclass(frozen=True)
class Failed:
    """Seconds until each of a few failures was named by the service; nothing for one that never was."""

    seen: list[float | None]


@dataclass
class Trial:
    """A program that runs beside its services."""

    contender: Contender
    cluster: Cluster
    client: Client
    services: Watched
    deployments: Watched
    log: Following
    count: int = 0
    _ready: dict[str, float] = field(default_factory=dict)  # when each service was first Ready

    def __post_init__(self) -> None:
        self.services.changed.append(self._note_ready)

    def create(self, count: int) -> Created:
        """Start the program, and create services at the client's full speed."""
        self.count = count
        measured = yardstick()
        with self.contender.running(self.cluster) as running, _most_memory(running.process) as most:
            self._calls()
            api_server, cpu, began = cpu_seconds(self.cluster.api_server), cpu_seconds(running.process), time.time()
            names = [f"model-{number}" for number in range(count)]
            self.client.create_all(services_path(NAMESPACE), [service(name, NAMESPACE) for name in names])
            client = time.time() - began
            limit = _READY_TIMEOUT * max(1.0, count / 1000)
            eventually(lambda: len(self._ready) >= count, "all services are Ready", limit, self._not_ready)
            calls = self._until_quiet()
            children = calls.children(count)
            assert children, f"{len(calls.made)} children of {count} services"
            return Created(
                count, round(client, 1), round(children - began, 1), round(max(self._ready.values()) - began, 1),
                dict(calls.verbs), round(cpu_seconds(running.process) - cpu, 1),
                round(cpu_seconds(self.cluster.api_server) - api_server, 1), max(most), measured,
            )  # fmt: skip

    def restart(self, then: Callable[[Running], None]) -> Restarted:
        """Start the program again, and go on with ``then`` while it runs."""
        self._calls()
        began = time.time()
        with self.contender.running(self.cluster) as running:
            eventually(lambda: running.reconciles() >= self.count and running.is_idle(), "it has caught up", 300)
            caught_up, cpu = time.time() - began, cpu_seconds(running.process)
            calls = self._until_quiet()
            rss = Memory.of(running.process).rss
            restarted = Restarted(round(caught_up, 1), dict(calls.verbs), round(cpu, 1), rss)
            then(running)
        return restarted

    def idle(self, running: Running, seconds: float) -> Idle:
        """Do nothing."""
        self._calls()
        cpu, began = cpu_seconds(running.process), time.monotonic()
        time.sleep(seconds)
        lasted = time.monotonic() - began
        return Idle(round(lasted), dict(self._calls().verbs), round((cpu_seconds(running.process) - cpu) / lasted, 4))

    def roll(self, tag: str) -> Rolled:
        """Change the image of the runtime."""
        image = f"{IMAGE}:{tag}"
        self._calls()
        times: dict[str, float] = {}

        def note(item: dict[str, Any], now: float) -> None:
            if item["spec"]["template"]["spec"]["containers"][0]["image"] == image:
                times.setdefault(item["metadata"]["name"], now)

        self.deployments.changed.append(note)
        began = time.time()
        spec = {"spec": runtime(tag)["spec"]}
        self.client.send("PATCH", f"{RUNTIMES}/{RUNTIME}", spec, "application/merge-patch+json")

        def rolled() -> bool:
            return len(times) >= self.count and all(map(is_rolled_out, list(self.deployments.items.values())))

        eventually(rolled, "all Deployments are rolled out", _READY_TIMEOUT, lambda: f"{len(times)} are changed")
        available = time.time() - began
        calls = self._until_quiet()
        self.deployments.changed.remove(note)
        wrong = sum(not _is_settled(item) for item in self.services.items.values())
        changed = sorted(times.values())
        in_a_minute = max(bisect_left(changed, at + 60) - number for number, at in enumerate(changed))
        return Rolled(
            round(changed[0] - began, 1), round(changed[-1] - began, 1), in_a_minute, round(available, 1), wrong,
            dict(calls.verbs),
        )  # fmt: skip

    def fail(self, failures: int) -> Failed:
        """Create a few services more, one after the other, whose server ends with an error when it has started."""
        return Failed([self._fail(f"fails-{number}") for number in range(failures)])

    def _fail(self, name: str) -> float | None:
        failing = service(name, NAMESPACE)
        failing["spec"]["predictor"]["schedulerName"] = "bench"  # which binds it to a node that KWOK does not play
        self.client.send("POST", services_path(NAMESPACE), failing)
        pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
        selector = f"labelSelector=serving.kserve.io/inferenceservice={name}"
        pod = eventually(lambda: self.client.send("GET", f"{pods}?{selector}")["items"], f"{name} has a pod")[0]
        path = f"{pods}/{pod['metadata']['name']}"
        self.client.send(
            "POST", f"{path}/binding", {"metadata": {"name": pod["metadata"]["name"]}, "target": ELSEWHERE}
        )
        time.sleep(_STARTS)
        named = threading.Event()
        times: list[float] = []

        def note(item: dict[str, Any], now: float) -> None:
            if item["metadata"]["name"] == name and any(words in json.dumps(item["status"]) for words in NAMED):
                times.append(now)
                named.set()

        self.services.changed.append(note)
        began = time.time()
        self.client.send("PATCH", f"{path}/status", failed_status(), STRATEGIC)
        named.wait(_SEEN_TIMEOUT)
        self.services.changed.remove(note)
        return round(times[0] - began, 2) if times else None

    def _calls(self) -> Calls:
        """The calls since the last time."""
        calls = Calls(self.contender.user_agents)
        calls.read(self.log.lines())
        return calls

    def _until_quiet(self) -> Calls:
        """The calls since the last time, until there are no more."""
        calls = Calls(self.contender.user_agents)

        def quiet() -> bool:
            calls.read(self.log.lines())
            return time.time() - calls.last > _QUIET

        eventually(quiet, "the program makes no more calls", 300, lambda: str(calls.verbs))
        return calls

    def _note_ready(self, item: dict[str, Any], now: float) -> None:
        if item["metadata"]["name"] not in self._ready and has_condition(item, "Ready"):
            self._ready[item["metadata"]["name"]] = now

    def _not_ready(self) -> str:
        name, item = next((pair for pair in self.services.items.items() if pair[0] not in self._ready), ("", {}))
        return f"{len(self._ready)} of {self.count} are; {name}: {json.dumps(item.get('status'))[:2000]}"


@contextlib.contextmanager
def trial(contender: Contender, assets: Path, *, limited: bool = False) -> Iterator[Trial]:
    """A new cluster for it, with no service yet; with ``limited`` controllers, or with such as have no limit."""

    def install(server: ApiServer) -> None:
        contender.install(server)
        server.create_namespace(NAMESPACE)
        create_claim(server, NAMESPACE)

    with (
        tempfile.TemporaryDirectory() as folder,
        running_cluster(assets, Path(folder), install, *_ONE_LOG, limited=limited) as cluster,
        contextlib.closing(Client(cluster.server)) as client,
        watching(client, services_path(NAMESPACE)) as services,
        watching(client, f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments") as deployments,
        contextlib.closing(Following(cluster.server.audit_log)) as following,
    ):
        yield Trial(contender, cluster, client, services, deployments, following)


def verbs(calls: dict[str, int]) -> str:
    """Calls by verb, in words."""
    return ", ".join(f"{number:,} {verb}" for verb, number in Counter(calls).most_common()) or "none"


@contextlib.contextmanager
def _most_memory(process: psutil.Process) -> Iterator[list[float]]:
    """What is resident, in MiB, twice a second."""
    found, ends = [Memory.of(process).rss], threading.Event()

    def sample() -> None:
        while not ends.wait(0.5):
            with contextlib.suppress(psutil.NoSuchProcess):
                found.append(round(process.memory_info().rss / 1024**2, 1))

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        ends.set()
        thread.join()


def yardstick() -> float:
    """Return the seconds for a fixed computation: how fast the machine is in these minutes."""
    began = time.perf_counter()
    for _ in range(3):
        json.loads(json.dumps([{"name": str(number), "value": number} for number in range(100_000)]))
    return round(time.perf_counter() - began, 2)


def is_rolled_out(item: dict[str, Any]) -> bool:
    """Whether the Deployment has its one pod available, and no other."""
    status = item.get("status", {})
    counts = {status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas")}
    return status.get("observedGeneration") == item["metadata"]["generation"] and counts == {1}


def _is_settled(item: dict[str, Any]) -> bool:
    """Whether the status says that all is rolled out."""
    conditions = {found["type"]: found for found in item.get("status", {}).get("conditions", ())}
    progressing = conditions.get("Progressing", {"reason": "NewReplicaSetAvailable"})
    return has_condition(item, "Ready") and progressing["reason"] == "NewReplicaSetAvailable"
