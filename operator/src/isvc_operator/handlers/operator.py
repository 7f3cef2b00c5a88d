"""Puts the operator together and runs it: watches → queue → reconcile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kopf

from isvc_operator.api.names import FIELD_MANAGER, LABEL_SERVICE
from isvc_operator.config import OperatorConfig
from isvc_operator.handlers.configuration import follow_config, read_config
from isvc_operator.handlers.deletions import follow_deletions
from isvc_operator.handlers.session import session_of
from isvc_operator.handlers.watches import register, select_children, service_keys
from isvc_operator.kube.cache import Cache
from isvc_operator.kube.client import connect
from isvc_operator.kube.handover import Handover
from isvc_operator.kube.objects import ObjectReader
from isvc_operator.kube.pod_details import PodDetails
from isvc_operator.reconcile import Reconciler
from isvc_operator.worker import Worker


@dataclass(frozen=True)
class Options:
    """How to run. ``kubeconfig`` None means the pod's service account; no ``namespaces`` means all of them.

    ``home`` is the operator's own namespace.
    """

    kubeconfig: str | None
    namespaces: tuple[str, ...] = ()
    config_dir: Path | None = None
    health_port: int | None = None
    parallel: int = 8
    home: str = ""


async def run(options: Options, now: Callable[[], str]) -> None:
    """Run until stopped by a signal. Raises ConfigError before anything is watched."""
    cache = Cache(LABEL_SERVICE)
    async with connect(options.kubeconfig) as api:
        clock = asyncio.get_running_loop().time
        reconciler = Reconciler(
            api=api,
            cache=cache,
            objects=ObjectReader(api, clock),
            details=PodDetails(api, clock),
            handover=Handover(clock),
            config=read_config(options.config_dir),
            now=now,
            home=options.home,
        )
        worker = Worker(reconciler.reconcile, options.parallel)

        def use(config: OperatorConfig) -> None:
            reconciler.use(config)
            for key in service_keys(cache):
                worker.add(key)

        deletions = follow_deletions(api, cache, worker.add, by_namespace=bool(options.namespaces))
        background = [asyncio.create_task(worker.run()), asyncio.create_task(deletions)]
        if options.config_dir is not None:
            background.append(asyncio.create_task(follow_config(options.config_dir, use)))
        watching = asyncio.create_task(_watch(options, cache, worker))
        await _until_one_ends(watching, *background)


async def _watch(options: Options, cache: Cache, worker: Worker) -> None:
    registry = kopf.OperatorRegistry()
    register(registry, cache, worker.add)

    @kopf.on.login(registry=registry)
    async def login(**kwargs: Any) -> Any:
        found = (kopf.login_with_kubeconfig if options.kubeconfig else kopf.login_with_service_account)(**kwargs)
        return found and session_of(found)

    health = f"http://0.0.0.0:{options.health_port}/healthz" if options.health_port else None
    await kopf.operator(
        registry=registry,
        settings=_settings(),
        standalone=True,  # no peering objects
        identity=FIELD_MANAGER,  # type: ignore[arg-type]  # else kopf looks up the user's name, and a pod's uid has none
        clusterwide=not options.namespaces,
        namespaces=options.namespaces,
        liveness_endpoint=health,
    )


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False  # our Events are made from the status, not from log lines
    settings.watching.connect_timeout = 10
    settings.networking.request_timeout = 30
    select_children(settings)
    return settings


async def _until_one_ends(*tasks: asyncio.Task[None]) -> None:
    """Wait for the first task to end, end the others, and raise what it raised."""
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    for task in done:
        task.result()
