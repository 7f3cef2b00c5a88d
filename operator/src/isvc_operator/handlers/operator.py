"""Assembles the operator and runs it: watches → queue → reconcile."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from isvc_operator.api.inference_service import KIND
from isvc_operator.api.names import LABEL_SERVICE
from isvc_operator.config import OperatorConfig, parse_config
from isvc_operator.handlers.configuration import POLL, follow_config, read_data
from isvc_operator.handlers.endpoints import serving
from isvc_operator.handlers.watches import Affected, service_keys
from isvc_operator.ignored_settings import ignored_settings
from isvc_operator.kube.cache import Cache, ServiceKey
from isvc_operator.kube.calls import observing
from isvc_operator.kube.client import connect, connect_watches
from isvc_operator.kube.election import Election
from isvc_operator.kube.fence import Fence
from isvc_operator.kube.heard import Heard
from isvc_operator.kube.ignored_settings import IgnoredSettings
from isvc_operator.kube.scope import scope_of
from isvc_operator.kube.silence import Silence
from isvc_operator.kube.watch import Watching
from isvc_operator.kube.watches import Watches
from isvc_operator.observe.phase import phase_of
from isvc_operator.reconcile import Reconciler
from isvc_operator.telemetry.metrics import Metrics
from isvc_operator.telemetry.snapshot import Snapshot
from isvc_operator.telemetry.tracing import Tracer
from isvc_operator.worker import Worker

CRD_RECHECK_SECONDS: Final = 300.0  # without permission to watch CRDs
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
    services_per_minute: int = 0
    home: str = ""
    identity: str = ""


async def run(options: OperatorOptions, now: Callable[[], str], tracer: Tracer) -> None:
    """Run until a signal stops it; raises ConfigError before anything is watched."""
    clock = asyncio.get_running_loop().time
    cache, metrics = Cache(LABEL_SERVICE), Metrics()
    fence = Fence(clock_with_suspensions) if options.identity else None
    async with (
        connect(
            options.kubeconfig,
            observed_by=observing(metrics.requested, clock, tracer),
            fence=fence,
            identity=options.identity,
        ) as api,
        connect_watches(
            options.kubeconfig, observed_by=observing(metrics.requested, clock), identity=options.identity
        ) as watch_api,
    ):
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
        worker = Worker(
            reconciler.reconcile,
            options.parallel,
            per_minute=options.services_per_minute,
            reconciled=metrics.reconciled,
            clock=clock,
        )
        election = None
        if fence is not None:
            election = Election(
                api, fence, namespace=options.home, identity=options.identity, clock=clock_with_suspensions, now=now
            )
        started, began = clock(), False

        def enqueue(key: ServiceKey) -> None:
            if began:  # until then a replica stands by, and then it queues all services
                worker.add(key)

        def enqueue_many(keys: Iterable[ServiceKey]) -> None:
            if began:
                worker.add_many(keys)

        recheck = None if scope.notices_crds else CRD_RECHECK_SECONDS
        watching = Watching(watch_api, Heard(clock), Silence(), random.random, recheck)
        watches = Watches(watching, scope, Affected(cache, enqueue, enqueue_many))

        def leading() -> bool:
            return election is None or election.leading

        def snapshot() -> Snapshot:
            return Snapshot(
                running=clock() - started,
                discovered=watches.discovered,
                leader=leading(),
                pause=api.pause.left,
                queue=worker.state(),
                watches=watches.states(),
            )

        def counted() -> Snapshot:
            services = Counter(phase_of(body) for body in cache.of_kind(KIND))
            return replace(snapshot(), contested=reconciler.contested(), services=services)

        ignored = ignored_settings(data)
        reports = IgnoredSettings(api, now, options.home)

        async def begin() -> None:
            nonlocal began
            began = True
            worker.add_many(service_keys(cache))
            await reports.of_config_map(ignored)

        async def use(config: OperatorConfig, has_no_effect: list[str]) -> None:
            nonlocal ignored
            ignored = has_no_effect
            reconciler.use(config)
            if began:
                await begin()

        async def report_storage_containers() -> None:
            while True:
                await asyncio.sleep(POLL)
                if began:
                    await reports.of_storage_containers(cache)

        stop = asyncio.Event()

        async def work() -> None:
            # The first reconcile sees the whole cluster. An API server that does not respond does not delay a stop.
            await _until_one_ends(asyncio.create_task(watches.filled()), asyncio.create_task(_until_set(stop)))
            if stop.is_set():
                return
            await begin()
            await worker.run()

        async def lead() -> None:
            if election is None:
                await work()
                return
            await election.win()
            await _until_one_ends(asyncio.create_task(work()), asyncio.create_task(election.hold()))
            await election.release()

        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        endless = (watches.run(), _until_set(stop), report_storage_containers())
        background = [asyncio.create_task(task) for task in endless]
        if options.config_dir is not None:
            background.append(asyncio.create_task(follow_config(options.config_dir, use)))
        async with serving(options.health_port, metrics, probed=snapshot, scraped=counted):
            reconciling = asyncio.create_task(lead())
            await asyncio.wait((reconciling, *background), return_when=asyncio.FIRST_COMPLETED)
            stop.set()
            worker.stop()
            if leading():  # what is in hand is finished; a replica that stands by has nothing in hand
                await asyncio.wait((reconciling,), timeout=FINISH_SECONDS)
            await _until_one_ends(reconciling, *background)


def clock_with_suspensions() -> float:
    """Return seconds that go on while the machine sleeps; a lease does, too. Only Linux has such a clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic()


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
