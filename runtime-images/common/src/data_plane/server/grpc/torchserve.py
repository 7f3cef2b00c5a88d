"""TorchServe's own inference API over gRPC, for the same models as all else.

A request is a map of named pieces, as a form is over HTTP; the handler gets them by these names.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

from google.protobuf.message import DecodeError

from data_plane.errors import InvalidRequest
from data_plane.limits import MAX_FORM_PARTS
from data_plane.messages import Response, StreamingResponse, close_chunks, gathered, header
from data_plane.model import Call, Models
from data_plane.off_loop import off_loop
from data_plane.protocol.torchserve import inference_apis_pb2 as pb
from data_plane.protocol.torchserve.requests import RawRequest
from data_plane.protocol.v2 import fields
from data_plane.server.grpc.statuses import code_of, error_text

SERVICE = "org.pytorch.serve.grpc.inference.InferenceAPIsService"

_SEQUENCE_ID = b"ts_request_sequence_id"
# Which piece is the body for a model that takes only one.
_BODIES = ("data", "body")


class InferenceAPIsService:
    """The methods of the API over `models`, from serialized message to serialized message."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def methods(self) -> Mapping[str, Callable[[bytes, Call], Awaitable[bytes]]]:
        """Return the methods with one response, by name."""
        return {"Ping": self.ping, "Predictions": self.predictions}

    async def ping(self, _: bytes, __: Call) -> bytes:
        """Return the health exactly as TorchServe writes it."""
        status = "Healthy" if self._models.ready else "Unhealthy"
        return pb.TorchServeHealthResponse(health=f'{{\n  "status": "{status}"\n}}').SerializeToString()

    async def predictions(self, body: bytes, call: Call) -> bytes:
        request = await off_loop(len(body), _read, body)
        answer = await self._ask(request, call)
        whole = await gathered(answer) if isinstance(answer, StreamingResponse) else answer
        return pb.PredictionResponse(prediction=whole.body).SerializeToString()

    async def stream_predictions(self, body: bytes, call: Call) -> AsyncGenerator[bytes, None]:
        """A response for each piece of the response: one, where the handler does not send it in pieces."""
        request = await off_loop(len(body), _read, body)
        answer = await self._ask(request, call)
        if isinstance(answer, Response):
            yield _response(call, prediction=answer.body)
            return
        try:
            async for piece in answer.chunks:
                yield _response(call, prediction=piece)
        finally:
            await close_chunks(answer)

    async def _ask(self, request: pb.PredictionsRequest, call: Call) -> Response | StreamingResponse:
        """As in TorchServe, a status that the handler sets does not reach the client."""
        if request.HasField("sequence_id"):
            others = (one for one in call.headers if one[0] != _SEQUENCE_ID)
            call.headers = (*others, (_SEQUENCE_ID, request.sequence_id.encode()))
        model = self._models.get(request.model_name, request.model_version or None)
        pieces = dict(request.input)
        name = next((one for one in (*_BODIES, *pieces) if one in pieces), "")
        body = pieces.pop(name, b"")
        return await model.raw(RawRequest(body, name=name, fields=tuple(pieces.items())), call)


def stream_error(error: Exception, call: Call) -> bytes:
    """Return a response with the error's status, as TorchServe does."""
    code: int = code_of(error).value[0]
    message = error_text(error, call, "StreamPredictions2")
    return _response(call, status=pb.Status(code=code, message=message))


def _response(call: Call, prediction: bytes = b"", status: pb.Status | None = None) -> bytes:
    sequence = header(call.headers, _SEQUENCE_ID)
    response = pb.PredictionResponse(prediction=prediction, status=status)
    if sequence is not None:
        response.sequence_id = sequence.decode()
    return response.SerializeToString()


def _read(body: bytes) -> pb.PredictionsRequest:
    """Raise InvalidRequest."""
    fields.check(body)
    try:
        request = pb.PredictionsRequest.FromString(body)
    except DecodeError as error:
        raise InvalidRequest(f"The body is not a {pb.PredictionsRequest.DESCRIPTOR.full_name}: {error}.") from error
    if not request.model_name:
        raise InvalidRequest("The request names no model; set model_name.")
    if len(request.input) > MAX_FORM_PARTS:
        raise InvalidRequest(f"The request has more than {MAX_FORM_PARTS} inputs; send what belongs together as one.")
    return request
