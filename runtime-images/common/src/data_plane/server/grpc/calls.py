"""Handles calls: reads the message, runs the method within the time limit, and sends the response or the error."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass

import grpc

from data_plane.errors import InvalidRequest
from data_plane.messages import Headers, header
from data_plane.model import Call
from data_plane.payload_logger.events import GRPC_TYPE, grpc_frame
from data_plane.payload_logger.exchange import LoggedExchange
from data_plane.payload_logger.logger import PayloadLogger
from data_plane.server.budget import ByteBudget, Held
from data_plane.server.grpc.messages import MessageReceiver
from data_plane.server.grpc.relay import GrpcRelay
from data_plane.server.grpc.statuses import REQUEST_ID, Context, abort, code_of, trailing_metadata
from data_plane.server.grpc.unread import UnreadResponses
from data_plane.server.metrics import ServerMetrics

Method = Callable[[bytes, Call], Awaitable[bytes]]
StreamMethod = Callable[[bytes, Call], AsyncGenerator[bytes, None]]
# Returns the message of a stream for an error in one of its requests; or raises the error, which ends the stream.
ErrorMessage = Callable[[Exception, Call], bytes]
_Metadata = Iterable[tuple[str, str | bytes]]


@dataclass(frozen=True, slots=True)
class Shared:
    """What the calls of all methods of a server share."""

    metrics: ServerMetrics
    budget: ByteBudget
    relay: GrpcRelay
    unread: UnreadResponses
    timeout_s: float
    payloads: PayloadLogger | None = None


class UnaryCalls:
    """The calls of a method with one request and one response; each has `timeout_s`.

    With `logged`, the payload logger gets their messages.
    """

    def __init__(
        self, name: str, method: Method, receiver: MessageReceiver, shared: Shared, *, logged: bool = False
    ) -> None:
        self._name = name
        self._payloads = shared.payloads if logged else None
        self._method = method
        self._receiver = receiver
        self._shared = shared
        self.handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_unary_rpc_method_handler(self._handle)

    async def _handle(self, _: object, context: Context) -> bytes:
        started = time.perf_counter()
        metadata = context.invocation_metadata() or ()
        call = _begin(context, metadata, self._shared)
        held = Held(self._shared.budget)
        code = grpc.StatusCode.CANCELLED  # by the client
        response = b""
        self._shared.metrics.in_flight.requests += 1
        try:
            body = await self._receiver.read(context, held)
            exchange = _log_request(self._payloads, body, call)
            response = await self._method(body, call)
            held.release()
            self._shared.unread.hold(response, context)
            context.set_trailing_metadata(trailing_metadata(call))
            code = grpc.StatusCode.OK
            if exchange:
                exchange.respond(GRPC_TYPE, grpc_frame(response))
        except Exception as error:  # noqa: BLE001 - every error becomes a status
            body = response = b""  # gRPC keeps this frame until the next full garbage collection
            code = code_of(error)
            await abort(context, code, error, call=call, what=self._name)
        finally:
            self._shared.metrics.in_flight.requests -= 1
            held.release()
            self._shared.metrics.observe_grpc(self._name, code.name, time.perf_counter() - started)
        return response


class StreamCalls:
    """The calls of a method with streams of requests and responses. Requests are processed one after the other.

    Each request has `timeout_s` until its first response. After an error in a request, the stream continues with the
    message that `error_message` returns; or the error that it raises becomes the status of the stream.
    """

    def __init__(
        self, name: str, method: StreamMethod, receiver: MessageReceiver, shared: Shared, *, error_message: ErrorMessage
    ) -> None:
        self._name = name
        self._method = method
        self._error_message = error_message
        self._receiver = receiver
        self._shared = shared
        self.handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(self._handle)

    async def _handle(self, _: object, context: Context) -> None:
        started = time.perf_counter()
        metadata = context.invocation_metadata() or ()
        call = _begin(context, metadata, self._shared)
        held = Held(self._shared.budget)
        code = grpc.StatusCode.CANCELLED  # by the client
        try:
            body: bytes | None = await self._receiver.read(context, held)
            while body is not None:
                await self._respond(body, call, context, held)
                held.release()
                call = _begin(context, metadata, self._shared)
                body = await self._next(context, held)
            code = grpc.StatusCode.OK
        except Exception as error:  # noqa: BLE001 - every error becomes a status
            body = None  # as above
            code = code_of(error)
            await abort(context, code, error, call=call, what=self._name)
        finally:
            held.release()
            self._shared.metrics.observe_grpc(self._name, code.name, time.perf_counter() - started)

    async def _next(self, context: Context, held: Held) -> bytes | None:
        """Read the next request; None if the client has no more."""
        try:
            return await self._receiver.read(context, held)
        except InvalidRequest:
            return None

    async def _respond(self, body: bytes, call: Call, context: Context, held: Held) -> None:
        exchange = _log_request(self._shared.payloads, body, call)
        logged = exchange.stream() if exchange else None
        self._shared.metrics.in_flight.requests += 1
        try:
            async with contextlib.aclosing(self._method(body, call)) as responses:
                async for response in responses:
                    if logged:
                        logged.add(*grpc_frame(response))
                    await self._shared.unread.write(response, context, held)
            return
        except Exception as error:  # noqa: BLE001 - every error becomes a message or a status
            response = b""  # not kept until the client has read the error
            message = self._error_message(error, call)
        finally:
            if logged:
                logged.end(GRPC_TYPE)
            self._shared.metrics.in_flight.requests -= 1
        await self._shared.unread.write(message, context, held)


def _log_request(payloads: PayloadLogger | None, body: bytes, call: Call) -> LoggedExchange | None:
    return payloads.begin(call.headers, call.id, GRPC_TYPE, grpc_frame(body)) if payloads else None


def _begin(context: Context, metadata: _Metadata, shared: Shared) -> Call:
    headers = _headers(metadata)
    request_id = (header(headers, REQUEST_ID.encode()) or uuid.uuid4().hex.encode()).decode()
    remaining_s = context.time_remaining()
    allowed_s = shared.timeout_s if remaining_s is None else min(remaining_s, shared.timeout_s)
    # gRPC cancels the task of a client that disconnects. Its contexts do not report that, nor do tasks of Python 3.10.
    cancellations = getattr(asyncio.current_task(), "cancelling", int)
    return Call(
        headers,
        request_id,
        lambda: bool(cancellations()),
        time.monotonic() + allowed_s,
        allowed_s,
        peer=lambda: shared.relay.address_of(context.peer()),
    )


def _headers(metadata: _Metadata) -> Headers:
    return tuple((name.encode(), value.encode() if isinstance(value, str) else value) for name, value in metadata)
