"""A port for gRPC whose calls go to the ready pods, so that clients keep their connection when pods are replaced."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio

from isvc.run.container import LOOPBACK
from isvc.run.endpoints import Endpoints
from isvc.run.routes import is_prediction

# Messages of any size: the pods have their own limits.
_OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
_Metadata = tuple[tuple[str, str | bytes], ...]


@asynccontextmanager
async def grpc_proxy(
    service: str, endpoints: Endpoints, predicted: Callable[[float], None] = lambda _: None
) -> AsyncIterator[int]:
    """Listen on loopback, and yield the port. What the messages are is not known here: they are passed on as bytes.

    ``predicted`` is called for each prediction that was answered, with the seconds that it took.
    """
    calls = _Calls(service, endpoints, predicted)
    server = grpc.aio.server(handlers=[calls], options=_OPTIONS)
    port = server.add_insecure_port(f"{LOOPBACK}:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)
        await calls.close()


class _Calls(grpc.GenericRpcHandler):
    """Passes on every method as one of two streams, which a single message is as well."""

    def __init__(self, service: str, endpoints: Endpoints, predicted: Callable[[float], None]) -> None:
        self._service = service
        self._endpoints = endpoints
        self._predicted = predicted
        self._channels: dict[int, grpc.aio.Channel] = {}

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        """Return what passes on a call of this method."""

        async def pass_on(requests: Any, context: grpc.aio.ServicerContext[bytes, bytes]) -> AsyncIterator[bytes]:
            began = time.monotonic()
            with self._endpoints.one() as port:
                if port is None:
                    why = f"{self._service} has no ready pod; it is starting, or it has failed"
                    await context.abort(grpc.StatusCode.UNAVAILABLE, why)
                call: Any = self._channel(port).stream_stream(details.method)(
                    requests, timeout=context.time_remaining(), metadata=_passed(context.invocation_metadata())
                )
                try:
                    await context.send_initial_metadata(_passed(await call.initial_metadata()))
                    async for response in call:
                        yield response
                    context.set_trailing_metadata(_passed(await call.trailing_metadata()))
                    if is_prediction(details.method):
                        self._predicted(time.monotonic() - began)
                except grpc.aio.AioRpcError as error:
                    await context.abort(error.code(), error.details() or "", _passed(error.trailing_metadata()))
                finally:
                    call.cancel()

        return grpc.stream_stream_rpc_method_handler(pass_on)

    async def close(self) -> None:
        """Close the connections to the pods."""
        for channel in self._channels.values():
            await channel.close()

    def _channel(self, port: int) -> grpc.aio.Channel:
        if port not in self._channels:
            self._channels[port] = grpc.aio.insecure_channel(f"{LOOPBACK}:{port}", options=_OPTIONS)
        return self._channels[port]


def _passed(metadata: Iterable[tuple[str, str | bytes]] | None) -> _Metadata:
    """Return the metadata without what is of one connection."""
    return tuple((key, value) for key, value in metadata or () if not key.startswith("grpc-") and key != "user-agent")
