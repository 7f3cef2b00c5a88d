"""Assembles the operator and runs it: watches → queue → reconcile."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

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
from isvc_operator.kube.cache import Cache
from isvc_operator.kube.calls import observing
from isvc_operator.kube.client import connect
from isvc_operator.kube.heard import Heard
from isvc_operator.kube.ignored_settings import report_ignored
from isvc_operator.kube.scope import Scope, scope_of
from isvc_operator.observe.phase import phase_of
from isvc_operator.reconcile import Reconciler
from isvc_operator.telemetry.metrics import Metrics
from isvc_operator.telemetry.snapshot import Snapshot, WatchState
from isvc_operator.telemetry.tracing import Tracer
from isvc_operator.worker import Worker


@dataclass(frozen=True)
class OperatorOptions:
    """How to run. Without a ``kubeconfig`` the pod's service account is used; without ``namespaces`` all are watched.

    ``home`` is the operator's own namespace. ``health_port`` also serves the metrics.
    """

    kubeconfig: str | None
    namespaces: tuple[str, ...] = ()
    config_dir: Path | None = None
    health_port: int | None = None
    parallel: int = 8
    home: str = ""


async def run(options: OperatorOptions, now: Callable[[], str], tracer: Tracer) -> None:
    """Run until a signal stops it; raises ConfigError before anything is watched."""
    asyncio.get_running_loop().set_exception_handler(ignore_abandoned_watches)
    clock = asyncio.get_running_loop().time
    cache, metrics, watching = Cache(LABEL_SERVICE), Metrics(), Watching(Heard(clock))
    async with connect(options.kubeconfig, observed_by=observing(metrics.requested, clock, tracer)) as api:
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
        )
        worker = Worker(reconciler.reconcile, options.parallel, reconciled=metrics.reconciled, clock=clock)
        started = clock()

        def snapshot() -> Snapshot:
            return Snapshot(
                running=clock() - started,
                discovered=watching.discovered,
                queue=worker.state(),
                watches=watching.states(),
            )

        def counted() -> Snapshot:
            return replace(snapshot(), services=Counter(phase_of(body) for body in cache.of_kind(KIND)))

        async def use(config: OperatorConfig, ignored: list[str]) -> None:
            reconciler.use(config)
            for key in service_keys(cache):
                worker.add(key)
            await report_ignored(api, ignored, home=options.home, now=now())

        relist = relist_forever(api, cache, worker.add, by_namespace=bool(options.namespaces))
        background = [asyncio.create_task(worker.run()), asyncio.create_task(relist)]
        if options.config_dir is not None:
            background.append(asyncio.create_task(follow_config(options.config_dir, use)))
        async with serving(options.health_port, metrics, probed=snapshot, scraped=counted):
            kopf_task = asyncio.create_task(
                _watch(options, scope, cache, worker=worker, watching=watching, metrics=metrics)
            )
            await report_ignored(api, ignored_settings(data), home=options.home, now=now())
            await _until_one_ends(kopf_task, *background)


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
    options: OperatorOptions, scope: Scope, cache: Cache, *, worker: Worker, watching: Watching, metrics: Metrics
) -> None:
    observed_by = observing(metrics.requested, asyncio.get_running_loop().time)
    registry = kopf.OperatorRegistry()
    register(registry, cache, worker.add, scope.kinds)

    @kopf.on.login(registry=registry)
    async def login(**kwargs: Any) -> Any:
        credentials = (kopf.login_with_kubeconfig if options.kubeconfig else kopf.login_with_service_account)(**kwargs)
        return credentials and session_of(credentials, watching.heard, observed_by=observed_by)

    await kopf.operator(
        registry=registry,
        settings=_settings(scope),
        standalone=True,  # no peering objects
        identity=FIELD_MANAGER,  # type: ignore[arg-type]  # kopf would look up the user's name, and a pod's uid has none
        clusterwide=not scope.namespaces,
        namespaces=scope.namespaces,
        insights=watching.insights,
    )


def _settings(scope: Scope) -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False  # Events are created from the status, not from log lines
    settings.watching.connect_timeout = 10
    settings.networking.request_timeout = 30
    settings.scanning.disabled = not scope.notices_crds
    select_by_label(settings)
    return settings


async def _until_one_ends(*tasks: asyncio.Task[None]) -> None:
    """Wait for the first task to end, cancel the others, and raise its error."""
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    for task in done:
        task.result()
