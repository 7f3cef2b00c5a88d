"""Starts TorchServe, serves its models, watches both, and ends with a clear reason."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from data_plane.health import State
from data_plane.model import Models
from data_plane.model_server.life import Listeners
from data_plane.model_server.serving import serve
from data_plane.server.app import App
from data_plane.server.metrics import ServerMetrics
from data_plane.server.routing import Router
from data_plane.server.run import HttpServer
from torchserve_adapter.batching import BatchRequirements
from torchserve_adapter.client import TorchServeClient
from torchserve_adapter.failure_reports import FailureReports
from torchserve_adapter.launch import Launch
from torchserve_adapter.limits import MAX_MANAGEMENT_CONNECTIONS
from torchserve_adapter.management import ManagementEndpoints, StoreRepository
from torchserve_adapter.process import TorchServe
from torchserve_adapter.rules import LOOPBACK
from torchserve_adapter.served import ServedVersions
from torchserve_adapter.watch import ModelWatch
from torchserve_compat.store.models import RequestedModel
from torchserve_compat.store.settings import installs_requirements, whole


@dataclass(frozen=True)
class ServedModels:
    """The models to serve, and their settings."""

    properties: Mapping[str, str]  # TorchServe's
    configured: Sequence[RequestedModel]
    requirements: BatchRequirements
    batch_sizes: Mapping[str, Mapping[str, int]]  # in handlers' contexts, by model and version
    missing: Mapping[str, str]  # models that cannot be served, and why
    alias: str | None


async def supervise(
    wanted: ServedModels, launch: Launch, listeners: Listeners, management: socket.socket | None
) -> None:
    """Serve what is wanted until a drain; raises StartError when TorchServe or a model fails.

    `management`: the socket of the management API, None if it is off.
    """
    models = Models((model.name for model in wanted.configured), wanted.alias)
    for name, why in wanted.missing.items():
        models.record(name, State.FAILED, why)
    metrics = ServerMetrics()
    async with TorchServe(launch) as torchserve, TorchServeClient(wanted.properties) as client:
        served = ServedVersions(models, client, wanted.requirements, metrics=metrics.batches, deaths=torchserve.deaths)
        watch = ModelWatch(
            wanted.configured, models, served=served, client=client, torchserve=torchserve,
            reports=FailureReports(
                launch.failures, torchserve.last_problems, installs=installs_requirements(wanted.properties)
            ),
            registering=management is not None,
        )  # fmt: skip
        must_not_end = [_refuse_after(one, served) for one in (torchserve.died(), watch.run())]
        if management:
            models.management_address = f"http://{LOOPBACK}:{management.getsockname()[1]}"
            store = Path(wanted.properties["model_store"])
            workers = whole(wanted.properties, "default_workers_per_model") or 1
            models.repository = StoreRepository(
                client, watch, served=served, requirements=wanted.requirements, store=store, workers=workers
            )
            router = Router(ManagementEndpoints(models.repository).routes())
            app = App(router, metrics, listeners.max_request_size, listeners.budget)
            server = HttpServer(
                app,
                management,
                grace_period_s=listeners.grace_period_s,
                max_connections=MAX_MANAGEMENT_CONNECTIONS,
            )
            must_not_end.append(server.run_until_drained())
        await serve(listeners, models, metrics, must_not_end=must_not_end, more_metrics=client.metrics)


async def _refuse_after(watching: Awaitable[None], served: ServedVersions) -> None:
    """Refuse waiting requests when `watching` ends, so that they do not delay the end."""
    try:
        await watching
    finally:
        served.refuse_all_waiting()
