"""A gRPC server of models on a port of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from data_plane.model import Models
from data_plane.server.grpc.server import GrpcServer
from data_plane.server.metrics import ServerMetrics

_OPTIONS = {"host": "127.0.0.1", "port": 0, "request_timeout_s": 60, "max_message_size": 1_000_000}


def grpc_server(models: Models, metrics: ServerMetrics | None = None, **options: Any) -> GrpcServer:
    """`options` are those of GrpcServer."""
    return GrpcServer(models, metrics or ServerMetrics(), **{**_OPTIONS, **options})


@asynccontextmanager
async def grpc_port(models: Models, metrics: ServerMetrics | None = None, **options: Any) -> AsyncIterator[int]:
    """The port, as long as it is served on."""
    server = grpc_server(models, metrics, **options)
    port = await server.start()
    try:
        yield port
    finally:
        await server.stop(0)
