"""Assembles the operator and runs it: watches → queue → reconcile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kopf

from isvc_operator.api.names import FIELD_MANAGER, LABEL_SERVICE
from isvc_operator.config import OperatorConfig, parse_config
from isvc_operator.handlers.configuration import follow_config, read_data
from isvc_operator.handlers.relist import relist_forever
from isvc_operator.handlers.session import session_of
from isvc_operator.handlers.watches import register, select_by_label, service_keys
from isvc_operator.ignored_settings import ignored_settings
from isvc_operator.kube.cache import Cache
from isvc_operator.kube.client import connect
from isvc_operator.kube.ignored_settings import report_ignored
from isvc_operator.reconcile import Reconciler
from isvc_operator.worker import Worker


@dataclass(frozen=True)
class OperatorOptions:
    """How to run. Without a ``kubeconfig`` the pod's service account is used; without ``namespaces`` all are watched.

    ``home`` is the operator's own namespace.
    """

    kubeconfig: str | None
    namespaces: tuple[str, ...] = ()
    config_dir: Path | None = None
    health_port: int | None = None
    parallel: int = 8
    home: str = ""


async def run(options: OperatorOptions, now: Callable[[], str]) -> None:
    """Run until a signal stops it; raises ConfigError before anything is watched."""
    asyncio.get_running_loop().set_exception_handler(ignore_abandoned_watches)
    cache = Cache(LABEL_SERVICE)
    async with connect(options.kubeconfig) as api:
        data = read_data(options.config_dir)
        reconciler = Reconciler(
            api=api,
            cache=cache,
            config=parse_config(data),
            now=now,
            clock=asyncio.get_running_loop().time,
            home=options.home,
        )
        worker = Worker(reconciler.reconcile, options.parallel)

        async def use(config: OperatorConfig, ignored: list[str]) -> None:
            reconciler.use(config)
            for key in service_keys(cache):
                worker.add(key)
            await report_ignored(api, ignored, home=options.home, now=now())

        relist = relist_forever(api, cache, worker.add, by_namespace=bool(options.namespaces))
        background = [asyncio.create_task(worker.run()), asyncio.create_task(relist)]
        if options.config_dir is not None:
            background.append(asyncio.create_task(follow_config(options.config_dir, use)))
        watching = asyncio.create_task(_watch(options, cache, worker))
        await report_ignored(api, ignored_settings(data), home=options.home, now=now())
        await _until_one_ends(watching, *background)


def ignore_abandoned_watches(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report what goes wrong in the event loop, except the end of kopf's watches.

    kopf leaves its watches to the loop, which closes their generators at once, while one is inside another.
    """
    if "asyncgen" not in context:
        loop.default_exception_handler(context)


async def _watch(options: OperatorOptions, cache: Cache, worker: Worker) -> None:
    registry = kopf.OperatorRegistry()
    register(registry, cache, worker.add)

    @kopf.on.login(registry=registry)
    async def login(**kwargs: Any) -> Any:
        credentials = (kopf.login_with_kubeconfig if options.kubeconfig else kopf.login_with_service_account)(**kwargs)
        return credentials and session_of(credentials)

    health = f"http://0.0.0.0:{options.health_port}/healthz" if options.health_port else None
    await kopf.operator(
        registry=registry,
        settings=_settings(),
        standalone=True,  # no peering objects
        identity=FIELD_MANAGER,  # type: ignore[arg-type]  # kopf would look up the user's name, and a pod's uid has none
        clusterwide=not options.namespaces,
        namespaces=options.namespaces,
        liveness_endpoint=health,
    )


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False  # Events are created from the status, not from log lines
    settings.watching.connect_timeout = 10
    settings.networking.request_timeout = 30
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
