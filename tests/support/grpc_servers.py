"""A gRPC server of models on a port of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from data_plane.model import Models
from data_plane.server.grpc.server import GrpcServer
from data_plane.server.metrics import ServerMetrics
from data_plane.server.run import listen

_OPTIONS = {"request_timeout_s": 60, "max_message_size": 1_000_000}


def grpc_server(
    models: Models, metrics: ServerMetrics | None = None, *, host: str = "127.0.0.1", port: int = 0, **options: Any
) -> tuple[GrpcServer, int]:
    """A server that has not started, and its port. `options` are those of GrpcServer."""
    listener = listen(host, port)
    server = GrpcServer(models, metrics or ServerMetrics(), listener=listener, **{**_OPTIONS, **options})
    return server, listener.getsockname()[1]


@asynccontextmanager
async def grpc_port(models: Models, metrics: ServerMetrics | None = None, **options: Any) -> AsyncIterator[int]:
    """The port, as long as it is served on."""
    server, port = grpc_server(models, metrics, **options)
    await server.start()
    try:
        yield port
    finally:
        await server.stop(0)
