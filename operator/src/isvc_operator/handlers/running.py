"""One operator that runs: its client, its cache, its queue, and what goes on beside the watches."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from isvc_operator.api.kinds import Role, with_role
from isvc_operator.config import OperatorConfig
from isvc_operator.controller.reconcile import Reconciler
from isvc_operator.controller.worker import Worker
from isvc_operator.errors import ConfigError
from isvc_operator.handlers.configuration import follow_config, read_data
from isvc_operator.handlers.endpoints import serving
from isvc_operator.handlers.replica import Replica
from isvc_operator.kube.calls import ApiCalls
from isvc_operator.kube.client import WATCHES_AGENT, connect
from isvc_operator.kube.ignored_settings import IgnoredSettings
from isvc_operator.kube.informer.cache import Cache
from isvc_operator.kube.informer.scope import scope_of
from isvc_operator.kube.informer.watching import Watching
from isvc_operator.kube.leader import LATEST_WRITE_SECONDS, Election, Fence
from isvc_operator.telemetry.metrics import Metrics
from isvc_operator.telemetry.tracing import Tracer

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


class RunningOperator:
    """Runs from ``start`` to ``end``. ``error`` is what has ended it, if it had to; ``stop`` is called then."""

    def __init__(self, options: OperatorOptions, stop: Callable[[], None], tracer: Tracer) -> None:
        self.options = options
        self.error: Exception | None = None
        self.replica: Replica
        self._stop_kopf = stop
        self._tracer = tracer
        self._stop = asyncio.Event()
        self._resources = AsyncExitStack()
        self._reconciling: asyncio.Task[None] | None = None
        self._beside: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Connect, and begin to reconcile as soon as what exists is known; raises OperatorError."""
        try:
            await self._start()
        except BaseException:  # kopf calls nobody at the end of a start that has failed
            await self._resources.aclose()
            raise

    async def _start(self) -> None:
        options, metrics = self.options, Metrics()
        self.replica = await self._replica(metrics)
        await self._resources.enter_async_context(
            serving(options.health_port, metrics, probed=self.replica.snapshot, scraped=self.replica.counted)
        )
        self._reconciling = asyncio.create_task(self.replica.lead(self._stop))
        self._beside = [asyncio.create_task(self.replica.report_storage_containers())]
        if options.config_dir is None:
            await self.replica.use(OperatorConfig(), [])
        else:
            following = follow_config(options.config_dir, self.replica.use, self.replica.refuse)
            self._beside.append(asyncio.create_task(following))
        for task in (self._reconciling, *self._beside):
            task.add_done_callback(self._ended)

    async def end(self) -> None:
        """Finish the reconciles in progress, and close everything."""
        self._stop.set()
        if self._reconciling is not None:
            self.replica.stop()
            if self.replica.leads:  # what is in hand is finished; a replica that stands by has nothing in hand
                await asyncio.wait((self._reconciling,), timeout=FINISH_SECONDS)
            tasks = [self._reconciling, *self._beside]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await self._resources.aclose()

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Stop with the first task that ends: none of them should."""
        if self._stop.is_set() or task.cancelled():
            return
        error = task.exception()
        self.fail(error if isinstance(error, Exception) else None)

    def fail(self, error: Exception | None) -> None:
        """Stop the operator, because of an error; the first one counts."""
        if not self._stop.is_set():
            self._stop.set()
            self.error = error
            self._stop_kopf()

    async def _replica(self, metrics: Metrics) -> Replica:
        options = self.options
        clock = asyncio.get_running_loop().time
        fence = Fence(clock_with_suspensions) if options.identity else None
        calls = ApiCalls(metrics.requested, metrics.refused, clock=clock)
        api = await self._resources.enter_async_context(
            connect(
                options.kubeconfig,
                calls=replace(calls, tracer=self._tracer),
                fence=fence.trace() if fence else None,
                identity=options.identity,
                write_seconds=LATEST_WRITE_SECONDS if fence else None,
            )
        )
        watch_api = await self._resources.enter_async_context(
            connect(
                options.kubeconfig,
                calls=calls,
                identity=options.identity,
                agent=WATCHES_AGENT,
                pause=api.pause,
            )
        )
        read_data(options.config_dir)  # a folder that is not there is a mistake in the flag
        scope = await scope_of(api, options.namespaces)
        cache = Cache()
        reconciler = Reconciler(
            api=api,
            cache=cache,
            config=OperatorConfig(),  # until the first one is used; nothing is reconciled before
            now=utc_now,
            clock=clock,
            home=options.home,
            tracer=self._tracer,
            restored=metrics.restored,
        )
        home, identity = options.home, options.identity
        election = (
            Election(api, fence, namespace=home, identity=identity, clock=clock_with_suspensions, now=utc_now)
            if fence
            else None
        )
        return Replica(
            reconciler,
            Worker(
                lambda key, failures: self.replica.reconcile(key, failures),
                options.parallel,
                reconciled=metrics.reconciled,
                clock=clock,
            ),
            watching=Watching(
                watch_api,
                clock,
                random.random,
                recheck=None if scope.notices_crds else CRD_RECHECK_SECONDS,
                knows=cache.knows,
                kinds=(*scope.kinds, *with_role(Role.DISCOVERY)),
                fail=self.fail,
            ),
            scope=scope,
            reports=IgnoredSettings(api, utc_now, options.home),
            pause=api.pause,
            election=election,
            clock=clock,
        )


def utc_now() -> str:
    """Return the time as Kubernetes writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def clock_with_suspensions() -> float:
    """Return seconds that go on while the machine sleeps; a lease does, too. Only Linux has such a clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic()


def options_in(environment: Mapping[str, str]) -> OperatorOptions:
    """Return what the variables of ``isvc operator`` say; raises ConfigError for a number that is none."""
    config_dir = environment.get("CONFIG_DIR")
    return OperatorOptions(
        kubeconfig=environment.get("KUBECONFIG") or None,
        namespaces=tuple(filter(None, environment.get("WATCH_NAMESPACES", "").split(","))),
        config_dir=Path(config_dir) if config_dir else None,
        health_port=_number(environment, "HEALTH_PORT"),
        parallel=_number(environment, "PARALLEL") or OperatorOptions.parallel,
        home=environment.get("POD_NAMESPACE") or "isvc-system",
    )


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name)
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()):
        raise ConfigError(f"{name} is {text!r}; set it to a number")
    return int(text)
