"""The gRPC server: its options, its services, and how each method is handled."""

from __future__ import annotations

import asyncio
import socket

import grpc

from data_plane.limits import (
    DRAIN_IDLE,
    GRPC_PING,
    GRPC_PING_TIMEOUT,
    HEAD_TIMEOUT,
    KEEP_ALIVE,
    MAX_GRPC_CONNECTIONS,
    MAX_GRPC_METADATA,
    MAX_GRPC_UNRELEASED,
    MIN_GRPC_READERS,
)
from data_plane.model import Call, Models
from data_plane.payload_logger.logger import PayloadLogger
from data_plane.server.budget import ByteBudget
from data_plane.server.certificate import Certificate
from data_plane.server.grpc import open_inference, torchserve
from data_plane.server.grpc.calls import Shared, StreamCalls, UnaryCalls
from data_plane.server.grpc.messages import MessageReceiver, readers_within
from data_plane.server.grpc.relay import LOOPBACK, GrpcRelay
from data_plane.server.grpc.unread import UnreadResponses
from data_plane.server.metrics import ServerMetrics

_WITH_DATA = ("ModelInfer", "Predictions")  # whose messages may be large


class GrpcServer:
    """Serves `models`. A request has `request_timeout_s`, or less if its client says so."""

    def __init__(
        self,
        models: Models,
        metrics: ServerMetrics,
        *,
        listener: socket.socket,
        request_timeout_s: float,
        max_message_size: int,
        budget: ByteBudget | None = None,
        max_connections: int = MAX_GRPC_CONNECTIONS,
        payloads: PayloadLogger | None = None,
        certificate: Certificate | None = None,
    ) -> None:
        self._server = grpc.aio.server(
            options=(
                ("grpc.max_receive_message_length", max_message_size),
                ("grpc.so_reuseport", 0),  # no other process gets the relay's connections
                ("grpc.max_concurrent_streams", MAX_GRPC_UNRELEASED),
                ("grpc.max_metadata_size", MAX_GRPC_METADATA),
                ("grpc.absolute_max_metadata_size", MAX_GRPC_METADATA),
                ("grpc.max_connection_idle_ms", KEEP_ALIVE * 1000),
                ("grpc.server_handshake_timeout_ms", HEAD_TIMEOUT * 1000),
                ("grpc.keepalive_time_ms", GRPC_PING * 1000),
                ("grpc.keepalive_timeout_ms", GRPC_PING_TIMEOUT * 1000),
                ("grpc.http2.bdp_probe", 0),  # else megabytes of each call arrive before they are read
            )
        )
        budget = budget or ByteBudget()
        # Messages that ask for health have a few bytes: they do not wait for others, nor for memory.
        large = MessageReceiver(readers_within(budget, max_message_size), budget)
        small = MessageReceiver(MIN_GRPC_READERS)
        self._relay = GrpcRelay(listener, max_connections, certificate.grpc_context if certificate else None)
        shared = Shared(metrics, budget, self._relay, UnreadResponses(budget, self._relay), request_timeout_s, payloads)
        inference, predictions = open_inference.OpenInferenceServicer(models), torchserve.InferenceAPIsService(models)
        handlers = {
            service: {
                name: UnaryCalls(
                    name, method, large if name in _WITH_DATA else small, shared, logged=name in _WITH_DATA
                ).handler
                for name, method in methods.items()
            }
            for service, methods in (
                (open_inference.SERVICE, inference.methods()),
                (torchserve.SERVICE, predictions.methods()),
            )
        }
        # A stream that waits for its next request occupies a reader, too, until others need it.
        streams = MessageReceiver(readers_within(budget, max_message_size), budget, KEEP_ALIVE)
        for service, name, method, error_message in (
            (open_inference.SERVICE, "ModelStreamInfer", inference.model_stream_infer, open_inference.stream_error),
            (torchserve.SERVICE, "StreamPredictions", predictions.stream_predictions, _status_only),
            (torchserve.SERVICE, "StreamPredictions2", predictions.stream_predictions, torchserve.stream_error),
        ):
            handlers[service][name] = StreamCalls(name, method, streams, shared, error_message=error_message).handler
        self._server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler(service, methods) for service, methods in handlers.items()]
        )

    async def start(self) -> None:
        """Accept connections of the listener."""
        port = self._server.add_insecure_port(f"{LOOPBACK}:0")
        await self._server.start()
        await self._relay.start(port)

    async def run_until_stopped(self) -> None:
        """Serve until `stop`; raises what ended gRPC's own loop, which none of its calls reports."""
        await self._server.wait_for_termination()

    async def stop(self, grace_s: float) -> None:
        """Accept no new calls; those in progress have `grace_s` to finish, and clients to close their connections."""
        clock = asyncio.get_running_loop().time
        ends = clock() + grace_s
        self._relay.close_port()
        await self._relay.dismiss(min(DRAIN_IDLE, grace_s))
        await self._server.stop(max(0.0, ends - clock()))
        await self._relay.left(max(0.0, ends - clock()))


def _status_only(error: Exception, _: Call) -> bytes:
    raise error
