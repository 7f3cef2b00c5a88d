"""The server's side of a handler: a Model that sends batches of requests to wherever the handler runs."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import re
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, get_args

import msgspec

from data_plane.batching.limits import BatchLimits
from data_plane.batching.metrics import BatchMetrics
from data_plane.batching.queue import Batch, BatchQueue
from data_plane.errors import (
    ClientGone,
    InferenceFailed,
    InvalidInput,
    ServingError,
    UnprocessableInput,
    Unsupported,
)
from data_plane.limits import ON_LOOP_BYTES
from data_plane.messages import Headers, Response, StreamingResponse
from data_plane.model import Call, Fields, Streaming
from data_plane.off_loop import off_loop
from data_plane.protocol import json_text
from data_plane.protocol.v1 import PredictRequest
from data_plane.protocol.v2.requests import InferRequest, InferResponse, ModelMetadata
from torchserve_compat import frames, tensors, values
from torchserve_compat.server import parts
from torchserve_compat.server.stream import Stream

log = logging.getLogger(__name__)

_JSON = "application/json"
_REFUSALS = {error.status: error for error in (InvalidInput, UnprocessableInput)}


class _Instances(msgspec.Struct):
    """As much of a body as counting them needs; the handler's process reads the rest."""

    instances: list[msgspec.Raw]


class _ManyInstances(msgspec.Struct):
    """Without an object for each."""

    instances: msgspec.Raw


_instances = msgspec.json.Decoder(_Instances)
_many_instances = msgspec.json.Decoder(_ManyInstances)
_DOCUMENT = re.compile(rb"\s*\{")
# Times that a byte of a form costs what one of JSON does.
_FORM_WEIGHT = 4


# Takes what the handler sends ahead of its result; False where nobody takes more for this request.
OnPiece = Callable[[frames.Piece], bool]


class Transport(Protocol):
    """The way to the process that holds the handler."""

    async def send(self, batch: frames.Batch, is_wanted: Callable[[], bool], on_piece: OnPiece) -> frames.Result:
        """The handler's result; raises a ServingError where the batch did not come through.

        `is_wanted`: whether anybody still waits for it. Deadlines pass and clients hang up.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Apart:
    """The lane of requests of a form that are never merged."""

    form: frames.Form


class HandlerModel(Streaming):
    """One version of a model whose handler is reached by `transport`.

    `stateful`: no batch is run again, as the handler may have changed its state by then; so only requests that are a
    row each are merged, which the handler can tell from one another. `merging`: whether requests are merged at all.
    """

    def __init__(
        self,
        name: str,
        version: str,
        transport: Transport,
        limits: BatchLimits,
        metrics: BatchMetrics,
        workers: int,
        *,
        envelope: str = "kserve",
        ahead: bool = False,
        stateful: bool = False,
        merging: bool = True,
    ) -> None:
        self.name = name
        self.version = version
        # Batches that a worker takes at a time: requests that join a running batch are one each.
        self.slots = limits.max_batch_size if limits.continuous else 1
        alone: set[Hashable] = set() if limits.merges_rows else set(_rows(envelope))
        self._keeps_apart = stateful and envelope not in ("none", "body")
        if self._keeps_apart:
            alone |= {"v1", "explain", "v2", _Apart("raw"), _Apart("raw-explain")}
        self.queue: BatchQueue[frames.Request, frames.Answer | Stream] = BatchQueue(
            name, self._run, limits, metrics, workers * self.slots,
            alone=alone, merging=merging and not limits.continuous, ahead=ahead, runs_again=not stateful,
        )  # fmt: skip
        self._continuous = limits.continuous
        self._transport = transport
        self._takes_instances = envelope in ("kserve", "json")

    async def drained(self) -> None:
        """Returns when no request waits and none is under way."""
        await self.queue.drained()

    async def metadata(self) -> ModelMetadata:
        """A handler does not say what it takes."""
        return ModelMetadata(self.name, (self.version,), "pytorch_torchserve", (), ())

    async def predict(self, request: PredictRequest, call: Call) -> Response:
        """Answers {"instances": …}."""
        return await self._ask_instances("v1", request, call)

    async def explain(self, request: PredictRequest, call: Call) -> Response:
        """Answers {"instances": …} with explanations."""
        return await self._ask_instances("explain", request, call)

    async def infer(self, request: InferRequest, call: Call) -> InferResponse:
        """Answers tensors; what a handler of instances returns becomes tensors."""
        answer = _whole(await self._submit_tensors(request, call))
        return await off_loop(len(answer.body), self._infer_response, request, answer)

    async def infer_stream(self, request: InferRequest, call: Call) -> AsyncGenerator[InferResponse, None]:
        """The same, with a response for each piece that the handler sends ahead of its result."""
        answer = await self._submit_tensors(request, call)
        if not isinstance(answer, Stream):
            yield await off_loop(len(answer.body), self._infer_response, request, answer)
            return
        try:
            async for body in answer:
                response = await off_loop(len(body), tensors.response, body, request, self.name, self.version)
                yield dataclasses.replace(response, is_last=answer.is_over)
        finally:
            answer.close()

    async def raw(
        self,
        body: bytes,
        content_type: str,
        path: str,
        call: Call,
        *,
        explain: bool = False,
        name: str = "body",
        fields: Fields = (),
    ) -> Response | StreamingResponse:
        """Answers a body of any kind, as the handler understands it; in pieces where the handler sends pieces."""
        headers = (*call.headers, (b"url_path", path.encode())) if path else call.headers
        cut, size = await off_loop(self._weight(body, content_type), self._cut, body, content_type)
        if name != "body":
            cut = [frames.Part(name, "", body)] if name else []
        if fields:
            cut = [*cut, *(frames.Part(one, "", value) for one, value in fields)]
        frame = frames.Request(call.id, headers, cut)
        form: frames.Form = "raw-explain" if explain else "raw"
        lane = _Apart(form) if self._keeps_apart and not _is_row(frame) else form
        answer = await self.queue.submit(frame, size, lane, call)
        return _streaming(answer) if isinstance(answer, Stream) else _response(answer)

    async def _ask_instances(self, form: frames.Form, request: PredictRequest, call: Call) -> Response:
        if self._continuous:
            raise _no_room()
        return _response(_whole(await self.queue.submit(_body(request.body, call), request.size, form, call)))

    def _weight(self, body: bytes, content_type: str) -> int:
        """What `_cut` costs, as `json_text.weight` has it."""
        if _FORM_WEIGHT * len(body) <= ON_LOOP_BYTES:
            return 0
        if parts.is_form(content_type):
            return _FORM_WEIGHT * len(body)
        return json_text.weight(body) if self._takes_instances and body.startswith(b"{") else 0

    def _cut(self, body: bytes, content_type: str) -> tuple[list[frames.Part], int]:
        """The parts of a body, and the number of instances in it."""
        return parts.split(body, content_type), _size(body) if self._takes_instances else 1

    async def _submit_tensors(self, request: InferRequest, call: Call) -> frames.Answer | Stream:
        size = max((tensor.shape[0] for tensor in request.inputs if tensor.shape), default=1)
        copied = sum([tensor.data.nbytes for tensor in request.inputs if tensor.datatype in ("BYTES", "BF16")])
        frame = await off_loop(copied, tensors.frame, request, call.id, call.headers)
        return await self.queue.submit(frame, size, "v2", call)

    def _infer_response(self, request: InferRequest, answer: frames.Answer) -> InferResponse:
        if answer.content_type == frames.REFUSAL:
            raise _refusal(answer)
        if answer.status >= 400:
            raise InferenceFailed(tensors.message(answer.body), answer.status)
        return tensors.response(answer.body, request, self.name, self.version)

    async def _run(self, batch: Batch[frames.Request]) -> Sequence[frames.Answer | ServingError]:
        form = batch.key.form if isinstance(batch.key, _Apart) else batch.key
        frame = frames.Batch(form, list(batch.payloads))  # type: ignore[arg-type]
        streams = _Streams(batch)
        try:
            sending = self._transport.send(frame, batch.is_wanted, streams.take)
            result = await (streams.while_read(sending) if self._continuous else sending)
            batch.model_s = result.seconds
            answers = self._answers(result)
        except Exception as error:
            streams.fail(error)
            raise
        streams.end(answers)
        return answers

    def _answers(self, result: frames.Result) -> list[frames.Answer]:
        if (failure := result.failure) is None:
            return result.answers
        if failure.alone and self.queue.merging:
            log.warning(
                "model %s, version %s: its requests are run one at a time from now on, since its handler cannot take "
                "merged ones: %s",
                self.name, self.version, failure.message,
            )  # fmt: skip
            self.queue.stop_merging()
        raise InferenceFailed(failure.message, failure.status)


class _Streams:
    """Those answers of one batch that come in pieces: each is handed out with its first."""

    __slots__ = ("_batch", "_is_closed", "_sending", "_streams")

    def __init__(self, batch: Batch[frames.Request]) -> None:
        self._batch = batch
        self._streams: dict[int, Stream] = {}  # by the request's place
        self._sending: asyncio.Future[frames.Result] | None = None
        self._is_closed = False

    async def while_read(self, sending: Coroutine[Any, Any, frames.Result]) -> frames.Result:
        """The result of a lone request; raises ClientGone as soon as nobody reads its answer any more."""
        self._sending = asyncio.ensure_future(sending)
        try:
            return await self._sending
        except asyncio.CancelledError:
            if self._is_closed:
                raise ClientGone from None
            self._sending.cancel()
            raise

    def _close(self) -> None:
        if self._sending:
            self._is_closed = True
            self._sending.cancel()

    def take(self, piece: frames.Piece) -> bool:
        """Where nobody takes more for its request, False."""
        places = (place for place, request in enumerate(self._batch.payloads) if request.id == piece.request)
        place = next(places, None)
        if place is None:  # a handler may write any id
            return False
        if stream := self._streams.get(place):
            return stream.put(piece.answer.body)
        stream = Stream(piece.answer, self._close)
        if not self._batch.answer_early(place, stream):
            return False
        self._streams[place] = stream
        return True

    def end(self, answers: Sequence[frames.Answer]) -> None:
        """With the last piece of each."""
        for place, stream in self._streams.items():
            stream.end(answers[place].body)

    def fail(self, error: Exception) -> None:
        """All of them break off."""
        for stream in self._streams.values():
            stream.fail(error)


def _rows(envelope: str) -> Collection[str]:
    """The forms whose requests are one row each for a handler behind this envelope.

    The tensors of kservev2 are the inputs of one call: a handler may take them by their places in the list.
    """
    return get_args(frames.Form) if envelope in ("none", "body", "kservev2") else ("raw", "raw-explain")


def _is_row(request: frames.Request) -> bool:
    """Whether the handler is sure to get the request as one row: it is no document with instances or tensors."""
    return all(part.name == "body" and _DOCUMENT.match(part.value) is None for part in request.parts)


def _size(body: bytes) -> int:
    """Instances in a body of TorchServe's API; one that has none is a row."""
    if body.startswith(b"{"):
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            if json_text.weight(body) <= ON_LOOP_BYTES:
                return len(_instances.decode(body).instances)
            text = bytes(_many_instances.decode(body).instances)
            return json_text.elements(text) if text.startswith(b"[") else 1
    return 1


def _whole(answer: frames.Answer | Stream) -> frames.Answer:
    """An answer for a protocol without pieces."""
    if isinstance(answer, Stream):
        answer.close()
        raise _no_room()
    return answer


def _no_room() -> Unsupported:
    return Unsupported(
        "The handler sends its answer in pieces, which this request has no room for; "
        "ask it by /predictions/<model>, or by gRPC's ModelStreamInfer."
    )


def _response(answer: frames.Answer) -> Response:
    if answer.content_type == frames.REFUSAL:
        raise _refusal(answer)
    return Response(answer.body, answer.status, (answer.content_type or _JSON).encode("latin-1"), _headers(answer))


def _streaming(stream: Stream) -> StreamingResponse:
    head = stream.head
    kind = head.content_type or values.kind_of(head.body)
    return StreamingResponse(stream, head.status, kind.encode("latin-1"), _headers(head))


def _headers(answer: frames.Answer) -> Headers:
    return tuple((name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers)


def _body(body: bytes, call: Call) -> frames.Request:
    return frames.Request(call.id, call.headers, [frames.Part("body", _JSON, body)])


def _refusal(answer: frames.Answer) -> ServingError:
    return _REFUSALS[answer.status](answer.body.decode())
