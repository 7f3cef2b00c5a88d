"""A model whose handler runs elsewhere: it sends batches of requests to the process that holds the handler."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import AsyncGenerator, Hashable, Sequence
from dataclasses import dataclass

from data_plane.batching.limits import BatchLimits
from data_plane.batching.metrics import BatchMetrics
from data_plane.batching.queue import Batch, BatchQueue
from data_plane.errors import (
    InferenceFailed,
    InvalidRequest,
    ServingError,
    UnprocessableInput,
    Unsupported,
)
from data_plane.messages import Headers, Response, StreamingResponse
from data_plane.model import Call, Streaming
from data_plane.off_loop import off_loop
from data_plane.protocol.torchserve.requests import RawRequest
from data_plane.protocol.v1 import PredictRequest
from data_plane.protocol.v2.datatypes import COPIED
from data_plane.protocol.v2.requests import ModelMetadata, TensorRequest, TensorResponse
from torchserve_compat import frames, tensors, values
from torchserve_compat.server import parts
from torchserve_compat.server.rows import count_instances, forms_of_one_row, is_one_row
from torchserve_compat.server.stream import BatchStreams, Stream
from torchserve_compat.server.transport import Transport

log = logging.getLogger(__name__)

_JSON = "application/json"
_REFUSALS = {error.status: error for error in (InvalidRequest, UnprocessableInput)}


@dataclass(frozen=True, slots=True)
class _Alone:
    """The queue key of requests of a form that are never merged."""

    form: frames.Form


class HandlerModel(Streaming):
    """One version of a model; `transport` sends batches to its handler.

    `stateful`: no batch runs again, because the handler may already have changed its state. So only requests that are
    one row each are merged: the handler can distinguish them.
    """

    def __init__(
        self,
        name: str,
        version: str,
        transport: Transport,
        *,
        limits: BatchLimits,
        metrics: BatchMetrics,
        workers: int,
        envelope: str = "kserve",
        ahead: bool = False,
        stateful: bool = False,
        merging: bool = True,
    ) -> None:
        self.name = name
        self.version = version
        # Batches that a worker processes at the same time: each request of a running batch is one.
        self.slots = limits.max_batch_size if limits.continuous else 1
        alone: set[Hashable] = set() if limits.merges_rows else set(forms_of_one_row(envelope))
        self._merges_rows_only = stateful and envelope not in ("none", "body")
        if self._merges_rows_only:
            alone |= {"v1", "explain", "v2", _Alone("raw"), _Alone("raw-explain")}
        self.queue: BatchQueue[frames.HandlerRequest, frames.HandlerResponse | Stream] = BatchQueue(
            name, self._run, limits, metrics, concurrency=workers * self.slots,
            alone=alone, merging=merging and not limits.continuous, ahead=ahead, runs_again=not stateful,
        )  # fmt: skip
        self._continuous = limits.continuous
        self._transport = transport
        self._takes_instances = envelope in ("kserve", "json")

    async def drained(self) -> None:
        await self.queue.drained()

    async def metadata(self) -> ModelMetadata:
        return ModelMetadata(self.name, (self.version,), "pytorch_torchserve", (), ())

    async def predict(self, request: PredictRequest, call: Call) -> Response:
        return await self._submit_instances("v1", request, call)

    async def explain(self, request: PredictRequest, call: Call) -> Response:
        return await self._submit_instances("explain", request, call)

    async def infer(self, request: TensorRequest, call: Call) -> TensorResponse:
        """Return the response to tensors; the results of a handler of instances are converted to tensors."""
        response = _whole(await self._submit_tensors(request, call))
        return await off_loop(len(response.body), self._infer_response, request, response)

    async def infer_stream(self, request: TensorRequest, call: Call) -> AsyncGenerator[TensorResponse, None]:
        """Return the response to tensors, with one TensorResponse for each piece that the handler sends."""
        result = await self._submit_tensors(request, call)
        if not isinstance(result, Stream):
            yield await off_loop(len(result.body), self._infer_response, request, result)
            return
        try:
            async for body in result:
                response = await off_loop(len(body), tensors.response, body, request, self.name, self.version)
                yield dataclasses.replace(response, is_last=result.is_over)
        finally:
            result.close()

    async def raw(self, request: RawRequest, call: Call) -> Response | StreamingResponse:
        """Return the response to a body of any type, streamed if the handler sends pieces."""
        headers = (*call.headers, (b"url_path", request.path.encode())) if request.path else call.headers
        found, size = await off_loop(len(request.body), self._split, request.body, request.content_type)
        if request.name != "body":
            found = [frames.RequestPart(request.name, "", request.body)] if request.name else []
        if request.fields:
            found = [*found, *(frames.RequestPart(name, "", value) for name, value in request.fields)]
        frame = frames.HandlerRequest(call.id, headers, found)
        form: frames.Form = "raw-explain" if request.explain else "raw"
        key = _Alone(form) if self._merges_rows_only and not is_one_row(frame) else form
        response = await self.queue.submit(frame, size, key, call)
        return _streaming(response) if isinstance(response, Stream) else _response(response)

    async def _submit_instances(self, form: frames.Form, request: PredictRequest, call: Call) -> Response:
        if self._continuous:
            raise _not_streamable()
        return _response(_whole(await self.queue.submit(_body(request.body, call), request.size, form, call)))

    def _split(self, body: bytes, content_type: str) -> tuple[list[frames.RequestPart], int]:
        """Return the parts of a body, and the number of its instances."""
        return parts.split(body, content_type), count_instances(body) if self._takes_instances else 1

    async def _submit_tensors(self, request: TensorRequest, call: Call) -> frames.HandlerResponse | Stream:
        size = max((tensor.shape[0] for tensor in request.inputs if tensor.shape), default=1)
        copied = sum([tensor.data.nbytes for tensor in request.inputs if tensor.datatype in COPIED])
        frame = await off_loop(copied, tensors.frame, request, call.id, call.headers)
        return await self.queue.submit(frame, size, "v2", call)

    def _infer_response(self, request: TensorRequest, response: frames.HandlerResponse) -> TensorResponse:
        if response.content_type == frames.REFUSAL:
            raise _refusal(response)
        if response.status >= 400:
            raise InferenceFailed(tensors.message(response.body), response.status)
        return tensors.response(response.body, request, self.name, self.version)

    async def _run(self, batch: Batch[frames.HandlerRequest]) -> Sequence[frames.HandlerResponse | ServingError]:
        form = batch.key.form if isinstance(batch.key, _Alone) else batch.key
        frame = frames.HandlerBatch(form, list(batch.payloads))  # type: ignore[arg-type]
        streams = BatchStreams(batch)
        try:
            sending = self._transport.send(frame, batch.is_wanted, streams.take)
            result = await (streams.while_read(sending) if self._continuous else sending)
            batch.model_s = result.seconds
            responses = self._responses(result)
        except Exception as error:
            streams.fail(error)
            raise
        streams.end(responses)
        return responses

    def _responses(self, result: frames.HandlerResult) -> list[frames.HandlerResponse]:
        if (failure := result.failure) is None:
            return result.responses
        if failure.alone and self.queue.merging:
            log.warning(
                "model %s, version %s: its requests run one at a time from now on, because its handler cannot process "
                "merged requests: %s",
                self.name, self.version, failure.message,
            )  # fmt: skip
            self.queue.stop_merging()
        raise InferenceFailed(failure.message, failure.status)


def _whole(response: frames.HandlerResponse | Stream) -> frames.HandlerResponse:
    """Return the response for a protocol without streaming; raises Unsupported."""
    if isinstance(response, Stream):
        response.close()
        raise _not_streamable()
    return response


def _not_streamable() -> Unsupported:
    return Unsupported(
        "The handler streams its response, which this protocol does not support; "
        "use /predictions/<model>, or gRPC's ModelStreamInfer."
    )


def _response(response: frames.HandlerResponse) -> Response:
    if response.content_type == frames.REFUSAL:
        raise _refusal(response)
    return Response(
        response.body, response.status, (response.content_type or _JSON).encode("latin-1"), _headers(response)
    )


def _streaming(stream: Stream) -> StreamingResponse:
    head = stream.head
    kind = head.content_type or values.kind_of(head.body)
    return StreamingResponse(stream, head.status, kind.encode("latin-1"), _headers(head))


def _headers(response: frames.HandlerResponse) -> Headers:
    return tuple((name.encode("latin-1"), value.encode("latin-1")) for name, value in response.headers)


def _body(body: bytes, call: Call) -> frames.HandlerRequest:
    return frames.HandlerRequest(call.id, call.headers, [frames.RequestPart("body", _JSON, body)])


def _refusal(response: frames.HandlerResponse) -> ServingError:
    return _REFUSALS[response.status](response.body.decode())
