"""One process of a server: its models, its endpoints and its shutdown."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import socket
from collections.abc import Awaitable, Mapping

from prometheus_client import REGISTRY, generate_latest

from data_plane.model_server.errors import StartError
from data_plane.model_server.life import Listeners, request_budget, serve_app
from data_plane.model_server.payloads import payload_logger
from data_plane.payload_logger.logger import PayloadLogger
from data_plane.ports import GRPC_PORT
from data_plane.protocol.cloudevents import DEFAULT_STYLE, EventStyle
from data_plane.server.app import App
from data_plane.server.budget import ByteBudget
from data_plane.server.certificate import Tls
from data_plane.server.endpoints.docs import DocsEndpoints
from data_plane.server.endpoints.health import HealthEndpoints
from data_plane.server.endpoints.repository import RepositoryEndpoints
from data_plane.server.metrics import ServerMetrics
from data_plane.server.routing import Router
from transformer_sdk.kserve.hooks import call
from transformer_sdk.kserve.model import BaseKServeModel, tls_folder
from transformer_sdk.kserve.serving.config import ServerConfig
from transformer_sdk.kserve.serving.endpoints import HookEndpoints
from transformer_sdk.kserve.serving.loop_watch import watched_loop
from transformer_sdk.kserve.serving.metrics import HookMetrics
from transformer_sdk.kserve.serving.repository import HookedModels, UsersRepository
from transformer_sdk.kserve.serving.threads import HookThreads

log = logging.getLogger(__name__)

# As for the model servers: the address to listen on, all addresses if not set; and gRPC's port in place of the default.
HOST_VARIABLE = "HTTP_HOST"
GRPC_PORT_VARIABLE = "GRPC_PORT"


async def serve(config: ServerConfig, listener: socket.socket) -> bool:
    """Serve until a signal; then finish requests in progress and stop the models.

    Return whether sync hooks still run.
    """
    metrics, threads = ServerMetrics(), HookThreads(config.max_threads)
    models = HookedModels(config.repository, threads, HookMetrics(metrics.registry))
    if config.enable_model_api:
        models.repository = UsersRepository(models, config.repository)
    listeners = Listeners(
        listener=listener,
        host=os.environ.get(HOST_VARIABLE, ""),
        grpc_port=_grpc_port(config.grpc_port, os.environ),
        grpc_flags="--grpc_port",
        max_request_size=config.max_request_size,
        request_timeout_s=config.request_timeout_s,
        grace_period_s=config.grace_period_s,
        keep_alive_s=config.keep_alive_s,
        tls=_tls(config.certificate, config.key) or Tls.of_secret(tls_folder(os.environ)),
        max_connections=config.max_connections,
        budget=request_budget(config.max_buffered_bytes, config.workers),
    )
    style = EventStyle.of(os.environ)
    app = build_app(
        models,
        metrics,
        timeout_s=listeners.request_timeout_s,
        max_request_size=listeners.max_request_size,
        style=style,
        budget=listeners.budget,
        payloads=payload_logger(os.environ, metrics, config.workers),
    )
    must_not_end: list[Awaitable[None]] = [models.keep_fresh()]
    must_not_end += [_run_engine(model) for model in config.repository.get_models().values() if model.engine]
    try:
        with watched_loop(lambda: models.ready):
            await serve_app(app, listeners, models, metrics=metrics, must_not_end=must_not_end)
    finally:
        await models.close()
        await models.stop()
    return threads.are_running


def _tls(certificate: str | None, key: str | None) -> Tls | None:
    if key and not certificate:
        raise StartError(f"--ssl_keyfile is {key}, and no certificate is given; name it with --ssl_certfile.")
    return Tls(certificate, key) if certificate else None


def build_app(
    models: HookedModels,
    metrics: ServerMetrics,
    *,
    timeout_s: float,
    max_request_size: int,
    style: EventStyle = DEFAULT_STYLE,
    budget: ByteBudget | None = None,
    payloads: PayloadLogger | None = None,
) -> App:
    """Return the application with every endpoint; of two routes for a path, the last one is used."""
    health, hooks = HealthEndpoints(models, metrics, _users_metrics), HookEndpoints(models, timeout_s, style)
    routes = [route for one in (health, RepositoryEndpoints(models), hooks) for route in one.routes()]
    docs = DocsEndpoints(models, routes, metadata=hooks.metadata, alive=health.alive)
    return App(
        Router((*routes, *docs.routes())),
        metrics,
        max_request_size,
        budget,
        payloads=payloads,
    )


async def _users_metrics() -> bytes:
    """Return the metrics of user code, and prometheus_client's metrics of the process."""
    return generate_latest(REGISTRY)


async def _run_engine(model: BaseKServeModel) -> None:
    await call(model.start_engine)
    await asyncio.Event().wait()  # an engine that has started and returned does not end the server


def _grpc_port(port: int | None, environment: Mapping[str, str]) -> int:
    """Return the port, or 0 where gRPC is not served."""
    if port is None:
        return 0
    told = environment.get(GRPC_PORT_VARIABLE, "")
    if port == GRPC_PORT and told.isdigit():  # tcp://... is the address of a Service that is named grpc
        port = int(told)
    if missing := [name for name in ("grpc", "google.protobuf", "numpy") if not _installed(name)]:
        log.info("gRPC is not served: %s not installed (the extra `grpc`)", ", ".join(missing))
        return 0
    return port


def _installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False
