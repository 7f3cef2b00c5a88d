"""A server of models with every protocol."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence

from data_plane.model import Models
from data_plane.model_server.life import Listeners, serve_app
from data_plane.model_server.payloads import payload_logger
from data_plane.payload_logger.logger import PayloadLogger
from data_plane.protocol.cloudevents import DEFAULT_STYLE, EventStyle
from data_plane.server.app import App
from data_plane.server.endpoints.description import DescriptionEndpoints
from data_plane.server.endpoints.docs import DocsEndpoints
from data_plane.server.endpoints.health import HealthEndpoints
from data_plane.server.endpoints.repository import RepositoryEndpoints
from data_plane.server.endpoints.torchserve import TorchServeEndpoints
from data_plane.server.endpoints.v1 import V1Endpoints
from data_plane.server.endpoints.v2 import V2Endpoints
from data_plane.server.metrics import ServerMetrics
from data_plane.server.routing import Router


async def serve(
    listeners: Listeners,
    models: Models,
    metrics: ServerMetrics,
    *,
    must_not_end: Sequence[Awaitable[None]],
    more_metrics: Callable[[], Awaitable[bytes]] | None = None,
) -> None:
    """Serve until a signal, then drain; raises what the first of `must_not_end` raises."""
    app = build_app(
        listeners,
        models,
        metrics,
        more_metrics=more_metrics,
        style=EventStyle.of(os.environ),
        payloads=payload_logger(os.environ, metrics),
    )
    await serve_app(app, listeners, models, metrics=metrics, must_not_end=must_not_end)


def build_app(
    listeners: Listeners,
    models: Models,
    metrics: ServerMetrics,
    *,
    more_metrics: Callable[[], Awaitable[bytes]] | None = None,
    style: EventStyle = DEFAULT_STYLE,
    payloads: PayloadLogger | None = None,
) -> App:
    """Return the application that serves the models by every protocol."""
    timeout_s = listeners.request_timeout_s
    health = HealthEndpoints(models, metrics, more_metrics) if more_metrics else HealthEndpoints(models, metrics)
    v2 = V2Endpoints(models, timeout_s, style)
    torchserve = TorchServeEndpoints(models, timeout_s)
    surfaces = (
        health,
        V1Endpoints(models, timeout_s, style),
        v2,
        RepositoryEndpoints(models),
        torchserve,
    )
    routes = [route for surface in surfaces for route in surface.routes()]
    docs = DocsEndpoints(models, routes, metadata=v2.metadata, alive=health.alive)
    routes += (*DescriptionEndpoints(models, routes).routes(), *docs.routes())
    size, budget = listeners.max_request_size, listeners.budget
    return App(Router(routes, torchserve.elsewhere), metrics, size, budget, payloads=payloads, cors=listeners.cors)
