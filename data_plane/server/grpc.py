"""The Open Inference Protocol over gRPC, for the same models as the HTTP endpoints.

The other border where errors become answers: a status code, the message, and the request id among the metadata.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import logging
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import NoReturn, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from data_plane import __version__
from data_plane.errors import InvalidRequest, ServingError
from data_plane.limits import (
    GRPC_PING,
    GRPC_PING_TIMEOUT,
    HEAD_TIMEOUT,
    KEEP_ALIVE,
    MAX_GRPC_CONNECTIONS,
    MAX_GRPC_STREAMS,
    MIN_GRPC_READERS,
    ON_LOOP_BYTES,
)
from data_plane.log_lines import one_line
from data_plane.messages import Headers, encodable, header, words_of
from data_plane.model import Call, Forwarder, Models, ServableModel, Streaming
from data_plane.off_loop import off_loop
from data_plane.protocol.v2 import fields
from data_plane.protocol.v2 import grpc as wire
from data_plane.protocol.v2 import open_inference_pb2 as pb
from data_plane.protocol.v2.requests import TensorRequest, TensorResponse, wanted_outputs
from data_plane.server import torchserve_grpc
from data_plane.server.budget import ByteBudget, Held
from data_plane.server.endpoints.server_metadata import EXTENSIONS
from data_plane.server.grpc_answers import UnreadAnswers
from data_plane.server.grpc_messages import Arrival, MessageReceiver, readers_within
from data_plane.server.metrics import ServerMetrics
from data_plane.server.timing import SERVER_TIMING, server_timing

log = logging.getLogger(__name__)

_SERVICE = "inference.GRPCInferenceService"
_WITH_DATA = ("ModelInfer", "Predictions")  # whose messages may be large
_REQUEST_ID = "x-request-id"
# Of Triton's protocol: whether a response is the last to its request, and by what a client asks for errors as statuses.
_FINAL = "triton_final_response"
_WANTS_STATUS = b"triton_grpc_error"
# In bytes. Messages travel among the headers, three bytes for one, and clients refuse headers of more than 8 KiB.
_MAX_MESSAGE = 2000
_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    408: grpc.StatusCode.DEADLINE_EXCEEDED,
    410: grpc.StatusCode.ABORTED,
    422: grpc.StatusCode.INVALID_ARGUMENT,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    501: grpc.StatusCode.UNIMPLEMENTED,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}

_Context = grpc.aio.ServicerContext[bytes, bytes]
_Method = Callable[[bytes, Call], Awaitable[bytes]]
_StreamMethod = Callable[[bytes, Call], AsyncGenerator[bytes, None]]
_Tell = Callable[[Exception, Call], bytes]
_M = TypeVar("_M", bound=Message)


class GrpcServer:
    """Serves `models`; a request is answered within `request_timeout_s`, or sooner if its client says so."""

    def __init__(
        self,
        models: Models,
        metrics: ServerMetrics,
        host: str,
        port: int,
        request_timeout_s: float,
        max_message_size: int,
        *,
        budget: ByteBudget | None = None,
        max_connections: int = MAX_GRPC_CONNECTIONS,
    ) -> None:
        self._host = host
        self._port = port
        self._server = grpc.aio.server(
            options=(
                ("grpc.max_receive_message_length", max_message_size),
                ("grpc.so_reuseport", 0),  # a port that is taken is an error, not a lottery
                ("grpc.max_allowed_incoming_connections", max_connections),
                ("grpc.max_concurrent_streams", MAX_GRPC_STREAMS),
                ("grpc.max_connection_idle_ms", KEEP_ALIVE * 1000),
                ("grpc.server_handshake_timeout_ms", HEAD_TIMEOUT * 1000),
                ("grpc.keepalive_time_ms", GRPC_PING * 1000),
                ("grpc.keepalive_timeout_ms", GRPC_PING_TIMEOUT * 1000),
                ("grpc.http2.bdp_probe", 0),  # else megabytes of each call come before anybody reads it
            )
        )
        budget = budget or ByteBudget()
        self._unread = UnreadAnswers(budget)
        # Health is asked for by messages of a few bytes: they do not wait for others, nor for room.
        infer = MessageReceiver(readers_within(budget, max_message_size), budget)
        other = MessageReceiver(MIN_GRPC_READERS)
        service, torchserves = OpenInferenceServicer(models), torchserve_grpc.InferenceAPIsService(models)
        answers: dict[str, _Answering | _StreamAnswering] = {
            f"/{of_service}/{name}": _Answering(
                name, method, metrics, budget, infer if name in _WITH_DATA else other, self._unread, request_timeout_s
            )
            for of_service, methods in ((_SERVICE, service.methods()), (torchserve_grpc.SERVICE, torchserves.methods()))
            for name, method in methods.items()
        }
        # A stream that waits for its next request takes a turn, too: it may do so for long, until others want theirs.
        streams = MessageReceiver(readers_within(budget, max_message_size), budget, KEEP_ALIVE)
        answers |= {
            path: _StreamAnswering(
                path.rpartition("/")[2], method, tell, metrics, budget, streams, self._unread, request_timeout_s
            )
            for path, method, tell in (
                (f"/{_SERVICE}/ModelStreamInfer", service.model_stream_infer, _triton_error),
                (f"/{torchserve_grpc.SERVICE}/StreamPredictions", torchserves.stream_predictions, _status_only),
                (f"/{torchserve_grpc.SERVICE}/StreamPredictions2", torchserves.stream_predictions, _torchserve_error),
            )
        }
        self._server.add_generic_rpc_handlers((_Handlers(answers),))

    async def start(self) -> int:
        """Returns the port, once it is open; raises RuntimeError for one that is taken."""
        port = self._server.add_insecure_port(f"{self._host or '[::]'}:{self._port}")
        await self._server.start()
        self._unread.port = port
        return port

    async def stop(self, grace_s: float) -> None:
        """Take no new calls; those under way have `grace_s` to finish."""
        await self._server.stop(grace_s)


class OpenInferenceServicer:
    """The methods of the protocol over `models`."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def methods(self) -> dict[str, _Method]:
        """What answers each method: from serialized message to serialized message."""
        return {
            "ServerLive": _parsed(pb.ServerLiveRequest, self.server_live),
            "ServerReady": _parsed(pb.ServerReadyRequest, self.server_ready),
            "ServerMetadata": _parsed(pb.ServerMetadataRequest, self.server_metadata),
            "ModelReady": _parsed(pb.ModelReadyRequest, self.model_ready),
            "ModelMetadata": _parsed(pb.ModelMetadataRequest, self.model_metadata),
            "ModelInfer": self._forwarded_or(self.model_infer),
            "RepositoryIndex": _parsed(pb.RepositoryIndexRequest, self.repository_index),
            "RepositoryModelLoad": _parsed(pb.RepositoryModelLoadRequest, self.load),
            "RepositoryModelUnload": _parsed(pb.RepositoryModelUnloadRequest, self.unload),
        }

    async def server_live(self, _: pb.ServerLiveRequest, __: Call) -> pb.ServerLiveResponse:
        return pb.ServerLiveResponse(live=True)

    async def server_ready(self, _: pb.ServerReadyRequest, __: Call) -> pb.ServerReadyResponse:
        return pb.ServerReadyResponse(ready=self._models.ready)

    async def server_metadata(self, _: pb.ServerMetadataRequest, __: Call) -> pb.ServerMetadataResponse:
        return pb.ServerMetadataResponse(name="isvc-operator", version=__version__, extensions=EXTENSIONS)

    async def model_ready(self, message: pb.ModelReadyRequest, _: Call) -> pb.ModelReadyResponse:
        return pb.ModelReadyResponse(ready=self._models.is_ready(message.name, message.version or None))

    async def model_metadata(self, message: pb.ModelMetadataRequest, _: Call) -> pb.ModelMetadataResponse:
        model = self._models.get(message.name, message.version or None)
        versions = self._models.versions(message.name)
        return wire.metadata_to_proto(dataclasses.replace(await model.metadata(), versions=versions))

    async def model_infer(self, body: bytes, call: Call) -> bytes:
        model, asked, raw = await off_loop(len(body), self._read, body)
        answer = await model.infer(asked, call)
        answer = dataclasses.replace(answer, id=asked.id or call.id, outputs=wanted_outputs(asked, answer))
        return await off_loop(answer.size, lambda: wire.response_to_proto(answer, raw=raw).SerializeToString())

    def _read(self, body: bytes) -> tuple[ServableModel, TensorRequest, bool]:
        """Who is asked what, and whether by raw contents."""
        if len(body) > ON_LOOP_BYTES:
            fields.check(body)
        message = _parse(pb.ModelInferRequest, body)
        model = self._models.get(message.model_name, message.model_version or None)
        return model, wire.request_from_proto(message), bool(message.raw_input_contents)

    async def model_stream_infer(self, body: bytes, call: Call) -> AsyncGenerator[bytes, None]:
        """What a request of a stream is answered with: as often as the model says something, or once."""
        model, asked, raw = await off_loop(len(body), self._read, body)
        call.id = asked.id or call.id
        answers = model.infer_stream(asked, call) if isinstance(model, Streaming) else _alone(model.infer(asked, call))
        async with contextlib.aclosing(answers):
            async for answer in answers:
                yield await off_loop(answer.size, _streamed, asked, answer, call.id, raw)

    async def repository_index(self, message: pb.RepositoryIndexRequest, _: Call) -> pb.RepositoryIndexResponse:
        found = pb.RepositoryIndexResponse()
        for entry in self._models.index():
            if entry.state == "READY" or not message.ready:
                found.models.add(name=entry.name, version=entry.version, state=entry.state, reason=entry.reason)
        return found

    async def load(self, message: pb.RepositoryModelLoadRequest, _: Call) -> pb.RepositoryModelLoadResponse:
        name = message.model_name or message.triton_model_name
        await self._models.load(name)
        return pb.RepositoryModelLoadResponse(model_name=name, isLoaded=True)

    async def unload(self, message: pb.RepositoryModelUnloadRequest, _: Call) -> pb.RepositoryModelUnloadResponse:
        name = message.model_name or message.triton_model_name
        await self._models.unload(name)
        return pb.RepositoryModelUnloadResponse(model_name=name, isUnloaded=True)

    def _forwarded_or(self, infer: _Method) -> _Method:
        """Requests go by unread where nobody here looks at them."""

        async def answer(body: bytes, call: Call) -> bytes:
            name, version = wire.addressee(body)
            # Versions are this server's own affair: the next one has others.
            model = self._models.get(name) if name and not version else None
            if isinstance(model, Forwarder) and model.forwards:
                return await model.forward(body, call)
            return await infer(body, call)

        return answer


def _parsed(message_type: type[_M], method: Callable[[_M, Call], Awaitable[Message]]) -> _Method:
    """`method` for serialized messages. They are parsed here: gRPC itself calls a bad one an internal error."""

    async def answer(body: bytes, call: Call) -> bytes:
        return (await method(_parse(message_type, body), call)).SerializeToString()

    return answer


class _Handlers(grpc.GenericRpcHandler):
    """Finds what answers a call, and how its message is taken in."""

    def __init__(self, answers: Mapping[str, _Answering | _StreamAnswering]) -> None:
        self._answers = answers

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        answering = self._answers.get(handler_call_details.method)
        return answering.handler() if answering else None


class _Answering:
    """Answers the calls of one method within `timeout_s`."""

    def __init__(
        self,
        name: str,
        method: _Method,
        metrics: ServerMetrics,
        budget: ByteBudget,
        receiver: MessageReceiver,
        unread: UnreadAnswers,
        timeout_s: float,
    ) -> None:
        self._name = name
        self._method = method
        self._metrics = metrics
        self._budget = budget
        self._receiver = receiver
        self._unread = unread
        self._timeout_s = timeout_s
        self._reading: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_unary_rpc_method_handler(
            functools.partial(self._answer, None)
        )

    def handler(self) -> grpc.RpcMethodHandler[bytes, bytes]:
        """Of a new call."""
        arrival = self._receiver.arrival()
        return (
            grpc.unary_unary_rpc_method_handler(functools.partial(self._answer, arrival)) if arrival else self._reading
        )

    async def _answer(self, arrival: Arrival | None, body: bytes, context: _Context) -> bytes:
        """Without an arrival `body` is none: it has to be read."""
        started = time.perf_counter()
        call = _begin(context, self._timeout_s)
        held = Held(self._budget)
        code = grpc.StatusCode.CANCELLED  # by a client that hung up
        answered = b""
        try:
            if arrival:
                arrival.end()
                await self._receiver.hold(body, held)
            else:
                body = await self._receiver.read(context, held)
            answered = await self._method(body, call)
            held.release()
            self._unread.hold(answered, context)
            context.set_trailing_metadata(_metadata(call))
            code = grpc.StatusCode.OK
        except Exception as error:  # noqa: BLE001 - the border: whatever it is, the client gets an answer
            body = answered = (
                b""  # gRPC keeps this frame, in a cycle with the aborted call, until the next full collection
            )
            code = _code(error)
            await _abort(context, code, error, call, self._name)
        finally:
            held.release()
            self._metrics.observe_grpc(self._name, code.name, time.perf_counter() - started)
        return answered


class _StreamAnswering:
    """Answers the requests of a stream one after the other, each within `timeout_s` until the first response.

    `tell` makes a message of the stream of an error in a request, and the stream goes on; or it raises the error, which
    becomes the stream's status and ends it.
    """

    def __init__(
        self,
        name: str,
        method: _StreamMethod,
        tell: _Tell,
        metrics: ServerMetrics,
        budget: ByteBudget,
        receiver: MessageReceiver,
        unread: UnreadAnswers,
        timeout_s: float,
    ) -> None:
        self._name = name
        self._method = method
        self._tell = tell
        self._metrics = metrics
        self._budget = budget
        self._receiver = receiver
        self._unread = unread
        self._timeout_s = timeout_s
        self._handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(self._answer)

    def handler(self) -> grpc.RpcMethodHandler[bytes, bytes]:
        """Of a new call."""
        return self._handler

    async def _answer(self, _: object, context: _Context) -> None:
        started = time.perf_counter()
        call = _begin(context, self._timeout_s)
        held = Held(self._budget)
        code = grpc.StatusCode.CANCELLED  # by a client that hung up
        try:
            body: bytes | None = await self._receiver.read(context, held)
            while body is not None:
                await self._answer_one(body, call, context, held)
                held.release()
                call = _begin(context, self._timeout_s)
                body = await self._next(context, held)
            code = grpc.StatusCode.OK
        except Exception as error:  # noqa: BLE001 - the border: whatever it is, the client gets an answer
            body = None  # as above
            code = _code(error)
            await _abort(context, code, error, call, self._name)
        finally:
            held.release()
            self._metrics.observe_grpc(self._name, code.name, time.perf_counter() - started)

    async def _next(self, context: _Context, held: Held) -> bytes | None:
        """Another request; None where the client has no more."""
        try:
            return await self._receiver.read(context, held)
        except InvalidRequest:
            return None

    async def _answer_one(self, body: bytes, call: Call, context: _Context, held: Held) -> None:
        try:
            async with contextlib.aclosing(self._method(body, call)) as answers:
                async for answer in answers:
                    await self._unread.write(answer, context, held)
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is told
            answer = b""  # one that found no room is not kept until the client has read that
            told = self._tell(error, call)
        await self._unread.write(told, context, held)


def _triton_error(error: Exception, call: Call) -> bytes:
    """As Triton does, unless the client asks for a status."""
    if header(call.headers, _WANTS_STATUS) == b"true":
        raise error
    told = pb.ModelStreamInferResponse(error_message=_told(error, call, "ModelStreamInfer"))
    told.infer_response.id = call.id
    return told.SerializeToString()


def _torchserve_error(error: Exception, call: Call) -> bytes:
    """As TorchServe does."""
    code: int = _code(error).value[0]
    return torchserve_grpc.error(call, code, _told(error, call, "StreamPredictions2"))


def _status_only(error: Exception, _: Call) -> bytes:
    raise error


def _streamed(asked: TensorRequest, answer: TensorResponse, id: str, raw: bool) -> bytes:  # noqa: A002
    parameters = {**answer.parameters, _FINAL: answer.is_last}
    answer = dataclasses.replace(answer, id=id, outputs=wanted_outputs(asked, answer), parameters=parameters)
    response = wire.response_to_proto(answer, raw=raw)
    return pb.ModelStreamInferResponse(infer_response=response).SerializeToString()


async def _alone(answering: Awaitable[TensorResponse]) -> AsyncGenerator[TensorResponse, None]:
    yield await answering


def _begin(context: _Context, timeout_s: float) -> Call:
    headers = _headers(context)
    request_id = (header(headers, _REQUEST_ID.encode()) or uuid.uuid4().hex.encode()).decode()
    remaining_s = context.time_remaining()
    allowed_s = timeout_s if remaining_s is None else min(remaining_s, timeout_s)
    # gRPC cancels the task of a client that hangs up; its contexts do not tell. Nor do the tasks of Python 3.10.
    cancellations = getattr(asyncio.current_task(), "cancelling", int)
    return Call(headers, request_id, lambda: bool(cancellations()), time.monotonic() + allowed_s, allowed_s)


def _headers(context: _Context) -> Headers:
    return tuple(
        (name.encode(), value.encode() if isinstance(value, str) else value)
        for name, value in context.invocation_metadata() or ()
    )


def _parse(message_type: type[_M], body: bytes) -> _M:
    try:
        return message_type.FromString(body)
    except DecodeError as error:
        raise InvalidRequest(f"The body is not a {message_type.DESCRIPTOR.full_name}: {error}.") from error


def _code(error: Exception) -> grpc.StatusCode:
    status = error.status if isinstance(error, ServingError) else 500
    return _CODES.get(status, grpc.StatusCode.INTERNAL)


def _metadata(call: Call) -> tuple[tuple[str, str], ...]:
    told = server_timing(call.headers, call.timings)
    return ((_REQUEST_ID, call.id), (SERVER_TIMING, told)) if told else ((_REQUEST_ID, call.id),)


async def _abort(context: _Context, code: grpc.StatusCode, error: Exception, call: Call, what: str) -> NoReturn:
    metadata = list(_metadata(call))
    if isinstance(error, ServingError):
        metadata.append(("x-component", error.component))
        if error.retry_after_s:
            metadata.append(("retry-after", str(error.retry_after_s)))
    told = _told(error, call, what)
    if isinstance(error, ServingError):
        error.__traceback__ = error.__cause__ = error.__context__ = None  # its frames hold the message
    await context.abort(code, told, tuple(metadata))


def _told(error: Exception, call: Call, what: str) -> str:
    """What the client reads of an error, which is logged."""
    if isinstance(error, ServingError):
        level = logging.WARNING if error.status >= 500 else logging.INFO
        log.log(
            level, "%s ended with %d: %s (request %s)", what, error.status, one_line(error.message), one_line(call.id)
        )
        message = error.message
    else:
        log.error("%s: unexpected error (request %s)", what, one_line(call.id), exc_info=error)
        message = f"{type(error).__name__} : {words_of(error)}"
    return encodable(message).encode()[:_MAX_MESSAGE].decode(errors="ignore")
