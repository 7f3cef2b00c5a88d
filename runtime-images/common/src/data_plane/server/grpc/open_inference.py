"""The methods of the Open Inference Protocol, from serialized message to serialized message."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from data_plane import __version__
from data_plane.errors import InvalidRequest
from data_plane.limits import ON_LOOP_BYTES
from data_plane.messages import header
from data_plane.model import Call, Forwarder, Models, ServableModel, Streaming
from data_plane.off_loop import off_loop
from data_plane.protocol.v2 import fields
from data_plane.protocol.v2 import grpc as wire
from data_plane.protocol.v2 import open_inference_pb2 as pb
from data_plane.protocol.v2.requests import TensorRequest, TensorResponse, wanted_outputs
from data_plane.server.endpoints.server_metadata import EXTENSIONS
from data_plane.server.grpc.calls import Method
from data_plane.server.grpc.statuses import error_text

SERVICE = "inference.GRPCInferenceService"

# Of Triton's protocol: whether a response is the last to its request, and how a client requests errors as statuses.
_FINAL = "triton_final_response"
_WANTS_STATUS = b"triton_grpc_error"

_M = TypeVar("_M", bound=Message)


class OpenInferenceServicer:
    """The methods of the protocol over `models`."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def methods(self) -> dict[str, Method]:
        """Return the methods with one response, by name."""
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
        model, request, raw = await off_loop(len(body), self._read, body)
        answer = await model.infer(request, call)
        answer = dataclasses.replace(answer, id=request.id or call.id, outputs=wanted_outputs(request, answer))
        return await off_loop(answer.size, lambda: wire.response_to_proto(answer, raw=raw).SerializeToString())

    def _read(self, body: bytes) -> tuple[ServableModel, TensorRequest, bool]:
        """Return the model, the request, and whether its inputs are raw contents."""
        if len(body) > ON_LOOP_BYTES:
            fields.check(body)
        message = _parse(pb.ModelInferRequest, body)
        model = self._models.get(message.model_name, message.model_version or None)
        return model, wire.request_from_proto(message), bool(message.raw_input_contents)

    async def model_stream_infer(self, body: bytes, call: Call) -> AsyncGenerator[bytes, None]:
        """Respond to a request of a stream: once for each part that the model sends, or once."""
        model, request, raw = await off_loop(len(body), self._read, body)
        call.id = request.id or call.id
        answers = (
            model.infer_stream(request, call) if isinstance(model, Streaming) else _alone(model.infer(request, call))
        )
        async with contextlib.aclosing(answers):
            async for answer in answers:
                yield await off_loop(answer.size, _streamed, request, answer, call.id, raw)

    async def repository_index(self, message: pb.RepositoryIndexRequest, _: Call) -> pb.RepositoryIndexResponse:
        found = pb.RepositoryIndexResponse()
        for entry in self._models.index():
            if entry.state == "READY" or not message.ready:
                found.models.add(name=entry.name, version=entry.version, state=entry.state, reason=entry.reason)
        return found

    async def load(self, message: pb.RepositoryModelLoadRequest, call: Call) -> pb.RepositoryModelLoadResponse:
        name = message.model_name or message.triton_model_name
        await self._models.load(name, call.peer())
        return pb.RepositoryModelLoadResponse(model_name=name, isLoaded=True)

    async def unload(self, message: pb.RepositoryModelUnloadRequest, call: Call) -> pb.RepositoryModelUnloadResponse:
        name = message.model_name or message.triton_model_name
        await self._models.unload(name, call.peer())
        return pb.RepositoryModelUnloadResponse(model_name=name, isUnloaded=True)

    def _forwarded_or(self, infer: Method) -> Method:
        """Forward requests unread where nothing here needs their content."""

        async def answer(body: bytes, call: Call) -> bytes:
            name, version = wire.addressee(body)
            # Versions are this server's own: the next server has others.
            model = self._models.get(name) if name and not version else None
            if isinstance(model, Forwarder) and model.forwards:
                return await model.forward(body, call)
            return await infer(body, call)

        return answer


def _parsed(message_type: type[_M], method: Callable[[_M, Call], Awaitable[Message]]) -> Method:
    """Return `method` for serialized messages. gRPC itself would report a malformed one as an internal error."""

    async def answer(body: bytes, call: Call) -> bytes:
        return (await method(_parse(message_type, body), call)).SerializeToString()

    return answer


def stream_error(error: Exception, call: Call) -> bytes:
    """Return a message of the stream, as Triton does; raises the error if the client asks for a status."""
    if header(call.headers, _WANTS_STATUS) == b"true":
        raise error
    response = pb.ModelStreamInferResponse(error_message=error_text(error, call, "ModelStreamInfer"))
    response.infer_response.id = call.id
    return response.SerializeToString()


def _streamed(request: TensorRequest, answer: TensorResponse, id: str, raw: bool) -> bytes:  # noqa: A002
    parameters = {**answer.parameters, _FINAL: answer.is_last}
    answer = dataclasses.replace(answer, id=id, outputs=wanted_outputs(request, answer), parameters=parameters)
    response = wire.response_to_proto(answer, raw=raw)
    return pb.ModelStreamInferResponse(infer_response=response).SerializeToString()


async def _alone(answering: Awaitable[TensorResponse]) -> AsyncGenerator[TensorResponse, None]:
    yield await answering


def _parse(message_type: type[_M], body: bytes) -> _M:
    try:
        return message_type.FromString(body)
    except DecodeError as error:
        raise InvalidRequest(f"The body is not a {message_type.DESCRIPTOR.full_name}: {error}.") from error
