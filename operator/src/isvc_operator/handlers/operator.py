"""Assembles the operator and runs it: watches → queue → reconcile."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from isvc_operator.api.names import LABEL_SERVICE
from isvc_operator.config import parse_config
from isvc_operator.handlers.configuration import follow_config, read_data
from isvc_operator.handlers.endpoints import serving
from isvc_operator.handlers.replica import Replica
from isvc_operator.handlers.tasks import until_one_ends, until_set
from isvc_operator.ignored_settings import ignored_settings
from isvc_operator.kube.cache import Cache
from isvc_operator.kube.calls import observing
from isvc_operator.kube.client import KubeApi, connect, connect_watches
from isvc_operator.kube.election import Election
from isvc_operator.kube.fence import Fence
from isvc_operator.kube.heard import Heard
from isvc_operator.kube.ignored_settings import IgnoredSettings
from isvc_operator.kube.scope import scope_of
from isvc_operator.kube.silence import Silence
from isvc_operator.kube.watch import Watching
from isvc_operator.reconcile import Reconciler
from isvc_operator.telemetry.metrics import Metrics
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
    home: str = ""
    identity: str = ""


async def run(options: OperatorOptions, now: Callable[[], str], tracer: Tracer) -> None:
    """Run until a signal stops it; raises ConfigError before anything is watched."""
    clock = asyncio.get_running_loop().time
    metrics = Metrics()
    fence = Fence(clock_with_suspensions) if options.identity else None
    async with (
        connect(
            options.kubeconfig,
            observed_by=observing(metrics.requested, clock, tracer),
            fence=fence,
            identity=options.identity,
        ) as api,
        connect_watches(
            options.kubeconfig,
            observed_by=observing(metrics.requested, clock),
            identity=options.identity,
            pause=api.pause,
        ) as watch_api,
    ):
        data = read_data(options.config_dir)
        scope = await scope_of(api, options.namespaces)
        reconciler = Reconciler(
            api=api,
            cache=Cache(LABEL_SERVICE),
            config=parse_config(data),
            now=now,
            clock=clock,
            home=options.home,
            tracer=tracer,
            restored=metrics.restored,
        )
        recheck = None if scope.notices_crds else CRD_RECHECK_SECONDS
        worker = Worker(
            reconciler.reconcile,
            options.parallel,
            reconciled=metrics.reconciled,
            clock=clock,
        )
        replica = Replica(
            reconciler,
            worker,
            watching=Watching(watch_api, Heard(clock), Silence(), random.random, recheck),
            scope=scope,
            reports=IgnoredSettings(api, now, options.home),
            ignored=ignored_settings(data),
            pause=api.pause,
            election=_election(api, fence, options, now) if fence else None,
            clock=clock,
        )
        await _until_stopped(replica, options, metrics)


def _election(api: KubeApi, fence: Fence, options: OperatorOptions, now: Callable[[], str]) -> Election:
    return Election(
        api, fence, namespace=options.home, identity=options.identity, clock=clock_with_suspensions, now=now
    )


async def _until_stopped(replica: Replica, options: OperatorOptions, metrics: Metrics) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    endless = [replica.watches.run(), replica.report_storage_containers(), until_set(stop)]
    if options.config_dir is not None:
        endless.append(follow_config(options.config_dir, replica.use))
    background = [asyncio.create_task(task) for task in endless]
    async with serving(options.health_port, metrics, probed=replica.snapshot, scraped=replica.counted):
        reconciling = asyncio.create_task(replica.lead(stop))
        await asyncio.wait((reconciling, *background), return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        replica.stop()
        if replica.leads:  # what is in hand is finished; a replica that stands by has nothing in hand
            await asyncio.wait((reconciling,), timeout=FINISH_SECONDS)
        await until_one_ends(reconciling, *background)


def clock_with_suspensions() -> float:
    """Return seconds that go on while the machine sleeps; a lease does, too. Only Linux has such a clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic()
