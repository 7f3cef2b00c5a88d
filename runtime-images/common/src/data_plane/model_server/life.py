"""A model server from start to end: open its ports, watch what must not fail, and drain."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import signal
import socket
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from data_plane.limits import (
    BUFFERED_SHARE,
    DRAIN_IDLE,
    KEEP_ALIVE,
    MAX_CONNECTIONS,
    MAX_GRPC_CONNECTIONS,
    MIN_LOG_FLUSH,
)
from data_plane.messages import Headers
from data_plane.model import Models
from data_plane.model_server import container, memory
from data_plane.model_server.errors import StartError
from data_plane.model_server.files import connections_within, raise_limit
from data_plane.payload_logger.logger import PayloadLogger
from data_plane.server.app import App
from data_plane.server.budget import ByteBudget
from data_plane.server.certificate import Certificate, Tls
from data_plane.server.metrics import ServerMetrics
from data_plane.server.run import EVERY_ADDRESS, HttpServer, listen
from data_plane.tasks import cancel

if TYPE_CHECKING:
    from data_plane.server.grpc.server import GrpcServer

log = logging.getLogger(__name__)

_GRPC_FILES = 3  # of a connection: the client's, and both ends of the one between the relay and gRPC


@dataclass(frozen=True, kw_only=True)
class Listeners:
    """The ports that accept requests, and the limits of requests. The listener is open; a gRPC port of 0 means none."""

    listener: socket.socket
    host: str
    grpc_port: int
    grpc_flags: str = "--grpc-port or --host"  # that choose another one
    max_request_size: int
    request_timeout_s: float
    grace_period_s: int
    keep_alive_s: int = KEEP_ALIVE
    tls: Tls | None = None
    cors: Headers = ()  # of every response, for browsers
    max_connections: int = MAX_CONNECTIONS  # over HTTP, as far as the process may open files
    budget: ByteBudget = field(default_factory=lambda: request_budget(None))

    @classmethod
    def of(
        cls, options: argparse.Namespace, listener: socket.socket, *, max_request_size: int, cors: Headers
    ) -> Listeners:
        """Return those that the flags of all model servers ask for."""
        return cls(
            listener=listener,
            host=options.host,
            grpc_port=options.grpc_port,
            max_request_size=max_request_size,
            request_timeout_s=options.request_timeout,
            grace_period_s=options.grace_period,
            cors=cors,
            tls=Tls.of_secret(options.tls_dir),
            max_connections=options.max_connections,
            budget=request_budget(options.max_buffered_bytes),
        )


def request_budget(limit: int | None, processes: int = 1) -> ByteBudget:
    """Return a budget of `limit` bytes, or of this process' share of the container's memory."""
    return ByteBudget(limit or int(container.memory() * BUFFERED_SHARE) // processes)


def open_port(host: str, port: int, flags: str = "--http-port or --host") -> socket.socket:
    """Open a listening socket; raises StartError if the port cannot be opened."""
    try:
        return listen(host, port)
    except OSError as error:
        reason = (error.strerror or "").partition(" (while")[0]  # the rest is the address in Python's form
        raise StartError(
            f"Port {port} cannot be opened: {reason}; stop what uses it or choose another with {flags}."
        ) from error


async def serve_app(
    app: App,
    listeners: Listeners,
    models: Models,
    *,
    metrics: ServerMetrics,
    must_not_end: Sequence[Awaitable[None]],
) -> None:
    """Serve until a signal, then drain; raises what the first of `must_not_end` raises.

    Raises StartError where it cannot serve: its certificate cannot be used, or a port is taken.
    """
    watched = [asyncio.ensure_future(one) for one in must_not_end]
    try:
        await _serve_while(watched, app, listeners, models=models, metrics=metrics)
    finally:
        await cancel(*watched)


async def _serve_while(
    watched: Sequence[asyncio.Future[None]],
    app: App,
    listeners: Listeners,
    *,
    models: Models,
    metrics: ServerMetrics,
) -> None:
    files = raise_limit()
    certificate = _certificate(listeners.tls)
    server = HttpServer(
        app,
        listeners.listener,
        grace_period_s=listeners.grace_period_s,
        keep_alive_s=listeners.keep_alive_s,
        certificate=certificate,
        max_connections=connections_within(files, listeners.max_connections),
        drain_idle_s=DRAIN_IDLE,
    )
    of_grpc = certificate if listeners.tls and listeners.tls.grpc else None
    grpc_server = await _start_grpc(
        listeners, files, models, metrics=metrics, payloads=app.payloads, certificate=of_grpc
    )
    if app.payloads:
        app.payloads.start()
    # What was imported stays: to look through it, a full collection would hold requests for a tenth of a second.
    gc.freeze()
    log.info("serving at %s", _address(listeners))
    serving = asyncio.create_task(server.run_until_drained())
    stopped = asyncio.create_task(_stop_signal())
    serving_grpc = [asyncio.create_task(grpc_server.run_until_stopped())] if grpc_server else []
    trimming = asyncio.create_task(memory.trim_heap_after_bursts(listeners.budget))
    try:
        ends = [stopped, serving, *serving_grpc, *watched]
        done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        log.info("draining: requests under way have %d s to finish", listeners.grace_period_s)
    finally:
        deadline = time.monotonic() + listeners.grace_period_s
        models.draining = True
        server.drain()
        if grpc_server:
            await grpc_server.stop(listeners.grace_period_s)
        await serving
        if app.payloads:
            await app.payloads.close(max(deadline - time.monotonic(), MIN_LOG_FLUSH))
        await cancel(stopped, trimming, *serving_grpc)


def _address(listeners: Listeners) -> str:
    """Return the URL on this machine."""
    host, port = listeners.listener.getsockname()[:2]
    if host in ("::", "0.0.0.0"):
        host = "localhost"
    return f"{'https' if listeners.tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def _certificate(tls: Tls | None) -> Certificate | None:
    try:
        return Certificate(tls) if tls else None
    except OSError as error:  # OpenSSL's, which names no file
        raise StartError(
            f"HTTPS cannot be served with {tls}: {error.strerror}; give a certificate and its key in PEM."
        ) from error


async def _start_grpc(
    listeners: Listeners,
    files: int,
    models: Models,
    *,
    metrics: ServerMetrics,
    payloads: PayloadLogger | None,
    certificate: Certificate | None,
) -> GrpcServer | None:
    if not listeners.grpc_port:
        return None
    from data_plane.server.grpc.server import GrpcServer  # gRPC takes a while to import

    server = GrpcServer(
        models,
        metrics,
        listener=open_port(listeners.host or EVERY_ADDRESS, listeners.grpc_port, listeners.grpc_flags),
        request_timeout_s=listeners.request_timeout_s,
        max_message_size=listeners.max_request_size,
        budget=listeners.budget,
        max_connections=connections_within(
            files, min(listeners.max_connections, MAX_GRPC_CONNECTIONS), each=_GRPC_FILES
        ),
        payloads=payloads,
        certificate=certificate,
    )
    await server.start()
    return server


async def _stop_signal() -> None:
    received = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, received.set)
    await received.wait()
