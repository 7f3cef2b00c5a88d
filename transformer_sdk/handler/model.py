"""The server's side of a handler: a Model that sends batches of requests to wherever the handler runs."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Protocol, get_args

import msgspec

from transformer_sdk.batching.limits import BatchLimits
from transformer_sdk.batching.metrics import BatchMetrics
from transformer_sdk.batching.queue import Batch, BatchQueue
from transformer_sdk.errors import InferenceFailed, InvalidInput, ServingError, UnprocessableInput
from transformer_sdk.handler import frames, parts, tensors
from transformer_sdk.messages import Response
from transformer_sdk.model import Call
from transformer_sdk.protocol.v1 import PredictRequest
from transformer_sdk.protocol.v2.requests import InferRequest, InferResponse, ModelMetadata

log = logging.getLogger(__name__)

_JSON = "application/json"
_REFUSALS = {error.status: error for error in (InvalidInput, UnprocessableInput)}


class _Instances(msgspec.Struct):
    """As much of a body as counting them needs; the handler's process reads the rest."""

    instances: list[msgspec.Raw]


_instances = msgspec.json.Decoder(_Instances)


class Transport(Protocol):
    """The way to the process that holds the handler."""

    async def send(self, batch: frames.Batch, is_wanted: Callable[[], bool]) -> frames.Result:
        """The handler's result; raises a ServingError where the batch did not come through.

        `is_wanted`: whether anybody still waits for it. Deadlines pass and clients hang up.
        """
        ...


class HandlerModel:
    """One version of a model whose handler is reached by `transport`."""

    def __init__(
        self,
        name: str,
        version: str,
        transport: Transport,
        limits: BatchLimits,
        metrics: BatchMetrics,
        concurrency: int,
        *,
        envelope: str = "kserve",
        ahead: bool = False,
    ) -> None:
        self.name = name
        self.version = version
        alone = () if limits.merges_rows else _rows(envelope)
        self.queue: BatchQueue[frames.Request, frames.Answer] = BatchQueue(
            name, self._run, limits, metrics, concurrency, alone=alone, ahead=ahead
        )
        self._transport = transport
        self._takes_instances = envelope in ("kserve", "json")

    async def metadata(self) -> ModelMetadata:
        """A handler does not say what it takes."""
        return ModelMetadata(self.name, (self.version,), "pytorch_torchserve", (), ())

    async def predict(self, request: PredictRequest, call: Call) -> Response:
        """Answers {"instances": …}."""
        return await self._ask("v1", _whole(request.body, call), request.size, call)

    async def explain(self, request: PredictRequest, call: Call) -> Response:
        """Answers {"instances": …} with explanations."""
        return await self._ask("explain", _whole(request.body, call), request.size, call)

    async def infer(self, request: InferRequest, call: Call) -> InferResponse:
        """Answers tensors; what a handler of instances returns becomes tensors."""
        size = max((tensor.shape[0] for tensor in request.inputs if tensor.shape), default=1)
        frame = tensors.frame(request, call.id, call.headers)
        answer = await self.queue.submit(frame, size, "v2", call)
        if answer.content_type == frames.REFUSAL:
            raise _refusal(answer)
        if answer.status >= 400:
            raise InferenceFailed(tensors.message(answer.body), answer.status)
        return tensors.response(answer.body, request, self.name, self.version)

    async def raw(self, body: bytes, content_type: str, path: str, call: Call, *, explain: bool = False) -> Response:
        """Answers a body of any kind, as the handler understands it."""
        headers = (*call.headers, (b"url_path", path.encode())) if path else call.headers
        frame = frames.Request(call.id, headers, parts.split(body, content_type))
        size = _size(body) if self._takes_instances else 1
        return await self._ask("raw-explain" if explain else "raw", frame, size, call)

    async def _ask(self, form: frames.Form, request: frames.Request, size: int, call: Call) -> Response:
        answer = await self.queue.submit(request, size, form, call)
        if answer.content_type == frames.REFUSAL:
            raise _refusal(answer)
        headers = tuple((name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers)
        return Response(answer.body, answer.status, (answer.content_type or _JSON).encode("latin-1"), headers)

    async def _run(self, batch: Batch[frames.Request]) -> Sequence[frames.Answer | ServingError]:
        frame = frames.Batch(batch.key, list(batch.payloads))  # type: ignore[arg-type]
        result = await self._transport.send(frame, batch.is_wanted)
        batch.model_s = result.seconds
        if (failure := result.failure) is None:
            return result.answers
        if failure.alone and self.queue.merging:
            log.warning(
                "model %s, version %s: its requests are run one at a time from now on, since its handler cannot take "
                "merged ones: %s",
                self.name, self.version, failure.message,
            )  # fmt: skip
            self.queue.merging = False
        raise InferenceFailed(failure.message, failure.status)


def _rows(envelope: str) -> Collection[str]:
    """The forms whose requests are one row each for a handler behind this envelope.

    The tensors of kservev2 are the inputs of one call: a handler may take them by their places in the list.
    """
    return get_args(frames.Form) if envelope in ("none", "body", "kservev2") else ("raw", "raw-explain")


def _size(body: bytes) -> int:
    """Instances in a body of TorchServe's API; one that has none is a row."""
    if body.startswith(b"{"):
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            return len(_instances.decode(body).instances)
    return 1


def _whole(body: bytes, call: Call) -> frames.Request:
    return frames.Request(call.id, call.headers, [frames.Part("body", _JSON, body)])


def _refusal(answer: frames.Answer) -> ServingError:
    return _REFUSALS[answer.status](answer.body.decode())
