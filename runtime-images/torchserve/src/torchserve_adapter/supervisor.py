"""The adapter's life: open the door, start TorchServe, watch both, and end for a reason that can be read."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torchserve_adapter.client import TorchServeClient
from torchserve_adapter.endpoints import Endpoints
from torchserve_adapter.launch import Launch
from torchserve_adapter.process import TorchServe
from torchserve_adapter.readiness import ModelWatch, Readiness
from transformer_sdk.model_store.models import Model
from transformer_sdk.model_store.rules import DEFAULT_MAX_REQUEST_SIZE
from transformer_sdk.server.app import App
from transformer_sdk.server.metrics import ServerMetrics
from transformer_sdk.server.routing import Router
from transformer_sdk.server.run import HttpServer

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Service:
    """What is served and how long anything may take."""

    properties: Mapping[str, str]
    models: Sequence[Model]
    name: str | None
    request_timeout_s: float
    grace_period_s: int


async def supervise(service: Service, launch: Launch, listener: socket.socket) -> None:
    """Returns after a drain; raises StartError when TorchServe or a model has failed."""
    readiness = Readiness(model.name for model in service.models)
    async with (
        TorchServe(launch) as torchserve,
        TorchServeClient(service.properties, service.request_timeout_s) as client,
    ):
        server = HttpServer(_app(service, readiness, client), listener, service.grace_period_s)
        watch = ModelWatch(service.models, readiness, client, torchserve, launch.failures)
        serving = asyncio.create_task(server.run_until_drained())
        stopped = asyncio.create_task(_stop_signal())
        failures = [asyncio.create_task(torchserve.died()), asyncio.create_task(watch.run())]
        try:
            done, _ = await asyncio.wait([stopped, *failures], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            log.info("draining: requests under way have %d s to finish", service.grace_period_s)
        finally:
            readiness.draining = True
            server.drain()
            await serving
            for task in (stopped, *failures):
                task.cancel()


def _app(service: Service, readiness: Readiness, client: TorchServeClient) -> App:
    metrics = ServerMetrics()
    names = [model.name for model in service.models]
    endpoints = Endpoints(names, service.name, readiness, client, metrics)
    limit = int(service.properties.get("max_request_size", DEFAULT_MAX_REQUEST_SIZE))
    return App(Router(endpoints.routes()), metrics, limit)


async def _stop_signal() -> None:
    received = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, received.set)
    await received.wait()
