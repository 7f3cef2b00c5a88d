"""One process of a server: its models, its endpoints, its end."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import socket
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from prometheus_client import REGISTRY, generate_latest

from data_plane.model_server.errors import StartError
from data_plane.model_server.life import Doors, request_budget, serve_app
from data_plane.protocol.cloudevents import DEFAULT_STYLE, AnswerStyle
from data_plane.server.app import App
from data_plane.server.budget import ByteBudget
from data_plane.server.endpoints.calls import Calls
from data_plane.server.endpoints.health import HealthEndpoints
from data_plane.server.endpoints.repository import RepositoryEndpoints
from data_plane.server.metrics import ServerMetrics
from data_plane.server.routing import Router
from data_plane.server.run import Tls
from transformer_sdk.kserve.hooks import call
from transformer_sdk.kserve.model import BaseKServeModel
from transformer_sdk.kserve.serving.endpoints import HookEndpoints
from transformer_sdk.kserve.serving.metrics import HookMetrics
from transformer_sdk.kserve.serving.repository import ServedModels
from transformer_sdk.kserve.serving.threads import HookThreads

if TYPE_CHECKING:
    from transformer_sdk.kserve.model_server import ModelServer

log = logging.getLogger(__name__)

HOST_VARIABLE = "HTTP_HOST"  # the address to serve on, as for our model servers; all if it is not set
_IF_A_HOOK = "where an async hook waits or computes, make it sync: then it has a thread"


async def serve(server: ModelServer, listener: socket.socket, *, grpc: bool) -> None:
    """Until a signal; then requests under way are answered, and models are stopped."""
    metrics, threads = ServerMetrics(), HookThreads(server.max_threads)
    models = ServedModels(server.registered_models, threads, HookMetrics(metrics.registry))
    doors = Doors(
        listener, os.environ.get(HOST_VARIABLE, ""), _grpc_port(server, grpc), server.settings.max_request_size,
        server.predictor_config.predictor_request_timeout_seconds, server.grace_period, server.timeout_keep_alive,
        _tls(server.ssl_certfile, server.ssl_keyfile), max_connections=server.settings.max_connections,
        budget=request_budget(server.settings.max_buffered_bytes, server.workers),
    )  # fmt: skip
    style = AnswerStyle.of(os.environ)
    app = build_app(models, metrics, doors.request_timeout_s, doors.max_request_size, style, budget=doors.budget)
    must_not_end: list[Awaitable[None]] = [models.keep_fresh()]
    must_not_end += [_run_engine(model) for model in server.registered_models.get_models().values() if model.engine]
    try:
        await serve_app(app, doors, models, metrics, must_not_end, if_held=_IF_A_HOOK)
    finally:
        await models.close()
        await models.stop()


def _tls(certificate: str | None, key: str | None) -> Tls | None:
    if key and not certificate:
        raise StartError(f"--ssl_keyfile is {key}, and no certificate is given; name it with --ssl_certfile.")
    return Tls(certificate, key) if certificate else None


def build_app(
    models: ServedModels,
    metrics: ServerMetrics,
    timeout_s: float,
    max_request_size: int,
    style: AnswerStyle = DEFAULT_STYLE,
    *,
    budget: ByteBudget | None = None,
) -> App:
    """Every endpoint over models with hooks; where two have a path, the last one has it."""
    surfaces = (
        HealthEndpoints(models, metrics, _users_metrics),
        RepositoryEndpoints(models),
        HookEndpoints(models, Calls(timeout_s), style),
    )
    return App(Router(route for one in surfaces for route in one.routes()), metrics, max_request_size, budget)


async def _users_metrics() -> bytes:
    """Those that hooks have made, and what prometheus_client has of the process."""
    return generate_latest(REGISTRY)


async def _run_engine(model: BaseKServeModel) -> None:
    await call(model.start_engine)
    await asyncio.Event().wait()  # it has started; that it has returned does not end the server


def _grpc_port(server: ModelServer, grpc: bool) -> int:
    missing = [name for name in ("grpc", "google.protobuf", "numpy") if grpc and not _installed(name)]
    if missing:
        log.info("gRPC is not served: %s not installed (the extra `grpc`)", ", ".join(missing))
    return server.grpc_port if grpc and not missing else 0


def _installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False
