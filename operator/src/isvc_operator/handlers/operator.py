"""Assembles the operator and runs it: watches → queue → reconcile."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import kopf
from kopf._cogs.structs.references import Insights  # the type of a parameter of kopf.operator

from isvc_operator.api.inference_service import KIND
from isvc_operator.api.names import FIELD_MANAGER, LABEL_SERVICE
from isvc_operator.config import OperatorConfig, parse_config
from isvc_operator.handlers.configuration import follow_config, read_data
from isvc_operator.handlers.endpoints import serving
from isvc_operator.handlers.relist import relist_forever
from isvc_operator.handlers.session import session_of
from isvc_operator.handlers.watches import register, select_by_label, service_keys
from isvc_operator.ignored_settings import ignored_settings
from isvc_operator.kube.cache import Cache, ServiceKey
from isvc_operator.kube.calls import observing
from isvc_operator.kube.client import connect
from isvc_operator.kube.election import Election
from isvc_operator.kube.fence import Fence
from isvc_operator.kube.heard import Heard
from isvc_operator.kube.ignored_settings import report_ignored
from isvc_operator.kube.scope import Scope, scope_of
from isvc_operator.observe.phase import phase_of
from isvc_operator.reconcile import Reconciler
from isvc_operator.telemetry.metrics import Metrics
from isvc_operator.telemetry.snapshot import Snapshot, WatchState
from isvc_operator.telemetry.tracing import Tracer
from isvc_operator.worker import Worker

FINISH_SECONDS: Final = 20.0  # for the reconciles in progress at a stop; a pod gets 30


@dataclass(frozen=True)
class OperatorOptions:
    """How to run. Without a ``kubeconfig`` the pod's service account is used; without ``namespaces`` all are watched.

    ``home`` is the operator's own namespace. ``health_port`` also serves the metrics. ``identity`` is that of one of
    several replicas, of which one reconciles; without it there is no election.
    """

    kubeconfig: str | None
    namespaces: tuple[str, ...] = ()
    config_dir: Path | None = None
    health_port: int | None = None
    parallel: int = 8
    home: str = ""
    identity: str = ""


async def run(options: OperatorOptions, now: Callable[[], str], tracer: Tracer) -> None:
    """Run until a signal stops it; raises ConfigError before anything is watched."""
    asyncio.get_running_loop().set_exception_handler(ignore_abandoned_watches)
    clock = asyncio.get_running_loop().time
    cache, metrics, watching = Cache(LABEL_SERVICE), Metrics(), Watching(Heard(clock))
    fence = Fence(clock_with_suspensions) if options.identity else None
    async with connect(
        options.kubeconfig,
        observed_by=observing(metrics.requested, clock, tracer),
        fence=fence,
        identity=options.identity,
    ) as api:
        data = read_data(options.config_dir)
        scope = await scope_of(api, options.namespaces)
        reconciler = Reconciler(
            api=api,
            cache=cache,
            config=parse_config(data),
            now=now,
            clock=clock,
            home=options.home,
            tracer=tracer,
            restored=metrics.restored,
        )
        worker = Worker(reconciler.reconcile, options.parallel, reconciled=metrics.reconciled, clock=clock)
        election = None
        if fence is not None:
            election = Election(
                api, fence, namespace=options.home, identity=options.identity, clock=clock_with_suspensions, now=now
            )
        started, began = clock(), False

        def leading() -> bool:
            return election is None or election.leading

        def enqueue(key: ServiceKey) -> None:
            if began:  # until then a replica stands by, and then it queues all services
                worker.add(key)

        def snapshot() -> Snapshot:
            return Snapshot(
                running=clock() - started,
                discovered=watching.discovered,
                leader=leading(),
                pause=api.pause.left,
                queue=worker.state(),
                watches=watching.states(),
            )

        def counted() -> Snapshot:
            services = Counter(phase_of(body) for body in cache.of_kind(KIND))
            return replace(snapshot(), contested=reconciler.contested(), services=services)

        ignored = ignored_settings(data)

        async def begin() -> None:
            nonlocal began
            began = True
            for key in service_keys(cache):
                worker.add(key)
            await report_ignored(api, ignored, home=options.home, now=now())

        async def use(config: OperatorConfig, has_no_effect: list[str]) -> None:
            nonlocal ignored
            ignored = has_no_effect
            reconciler.use(config)
            if began:
                await begin()

        async def work() -> None:
            await begin()
            await worker.run()

        async def lead() -> None:
            if election is None:
                await work()
                return
            await election.win()
            await _until_one_ends(asyncio.create_task(work()), asyncio.create_task(election.hold()))
            await election.release()

        background = [asyncio.create_task(relist_forever(api, cache, enqueue, by_namespace=bool(options.namespaces)))]
        if options.config_dir is not None:
            background.append(asyncio.create_task(follow_config(options.config_dir, use)))
        async with serving(options.health_port, metrics, probed=snapshot, scraped=counted):
            stop = asyncio.Event()
            watches = _watch(options, scope, cache, enqueue=enqueue, watching=watching, metrics=metrics, stop=stop)
            background += [asyncio.create_task(watches), asyncio.create_task(_until_set(stop))]
            reconciling = asyncio.create_task(lead())
            await asyncio.wait((reconciling, *background), return_when=asyncio.FIRST_COMPLETED)
            worker.stop()
            if leading():  # what is in hand is finished; a replica that stands by has nothing in hand
                await asyncio.wait((reconciling,), timeout=FINISH_SECONDS)
            await _until_one_ends(reconciling, *background)


def clock_with_suspensions() -> float:
    """Return seconds that go on while the machine sleeps; a lease does, too. Only Linux has such a clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic()


def ignore_abandoned_watches(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report what goes wrong in the event loop, except the end of kopf's watches.

    kopf leaves its watches to the loop, which closes their generators at once, while one is inside another.
    """
    if "asyncgen" not in context:
        loop.default_exception_handler(context)


@dataclass(frozen=True)
class Watching:
    """What is watched: the kinds that kopf has found, and what their watches have heard."""

    heard: Heard
    insights: Insights = field(default_factory=Insights)

    @property
    def discovered(self) -> bool:
        """Whether kopf has found the kinds and the namespaces that are there."""
        return self.insights.ready_resources.is_set() and self.insights.ready_namespaces.is_set()

    def states(self) -> tuple[WatchState, ...]:
        """Return the states of the watches of the kinds that are in the cluster now."""
        return self.heard.states(
            {
                resource.get_url(namespace=namespace if resource.namespaced else None): resource.plural
                for resource in self.insights.watched_resources
                for namespace in self.insights.namespaces
            }
        )


async def _watch(
    options: OperatorOptions,
    scope: Scope,
    cache: Cache,
    *,
    enqueue: Callable[[ServiceKey], None],
    watching: Watching,
    metrics: Metrics,
    stop: asyncio.Event,
) -> None:
    """Watch; the signals that end a process set ``stop``."""
    observed_by = observing(metrics.requested, asyncio.get_running_loop().time)
    registry = kopf.OperatorRegistry()
    register(registry, cache, enqueue, scope.kinds)

    @kopf.on.login(registry=registry)
    async def login(**kwargs: Any) -> Any:
        credentials = (kopf.login_with_kubeconfig if options.kubeconfig else kopf.login_with_service_account)(**kwargs)
        return credentials and session_of(credentials, watching.heard, observed_by=observed_by)

    # kopf takes every later task for its own at its end, waits for it and cancels it, so the signal is not left to it.
    before = asyncio.all_tasks()
    tasks = await kopf.spawn_tasks(
        registry=registry,
        settings=_settings(scope),
        standalone=True,  # no peering objects
        identity=FIELD_MANAGER,  # type: ignore[arg-type]  # kopf would look up the user's name, and a pod's uid has none
        clusterwide=not scope.namespaces,
        namespaces=scope.namespaces,
        insights=watching.insights,
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await kopf.run_tasks(tasks, ignored=before)


def _settings(scope: Scope) -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False  # Events are created from the status, not from log lines
    settings.watching.connect_timeout = 10
    settings.networking.request_timeout = 30
    settings.scanning.disabled = not scope.notices_crds
    select_by_label(settings)
    return settings


async def _until_set(event: asyncio.Event) -> None:
    await event.wait()


async def _until_one_ends(*tasks: asyncio.Task[None]) -> None:
    """Wait for the first task to end, cancel the others, and raise its error."""
    done: set[asyncio.Task[None]] = set()
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
