"""The data plane in this process, asked through its wire, and how long each request holds its event loop.

The models give back what they get, and take no time: a handler's model, whose batches are written and read as for a
process of its own, a bare model, and one with hooks of the SDK.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from data_plane.batching.limits import BatchLimits
from data_plane.batching.metrics import BatchMetricsRegistry
from data_plane.errors import ServingError
from data_plane.limits import MAX_REQUEST
from data_plane.model import Call
from data_plane.model_server.life import Listeners
from data_plane.model_server.serving import build_app
from data_plane.protocol.v2 import open_inference_pb2 as pb
from data_plane.protocol.v2.requests import TensorMetadata
from data_plane.protocol.v2.tensors import Array
from data_plane.server.grpc.open_inference import OpenInferenceServicer
from data_plane.server.metrics import ServerMetrics
from mar_runtime.models.tensor_model import TensorModel
from tests.support.fake_models import serving
from tests.support.sdk_models import Predicting
from torchserve_compat import frames
from torchserve_compat.server.model import HandlerModel
from transformer_sdk.kserve import InferOutput, InferRequest, InferResponse
from transformer_sdk.kserve.model_repository import ModelRepository
from transformer_sdk.kserve.serving import server as sdk
from transformer_sdk.kserve.serving.metrics import HookMetrics
from transformer_sdk.kserve.serving.repository import HookedModels
from transformer_sdk.kserve.serving.threads import HookThreads

MAX_BODY = MAX_REQUEST
_BEAT_S = 0.001


class Echo:
    """The way to a handler that answers with what it got."""

    async def send(
        self, batch: frames.HandlerBatch, is_wanted: Callable[[], bool], on_piece: Any
    ) -> frames.HandlerResult:
        requests = batch.requests
        frames.encode(batch)
        if batch.form == "v2":
            answers = [frames.HandlerResponse(msgspec.msgpack.encode([request.parts, {}])) for request in requests]
        else:
            answers = [frames.HandlerResponse(b"{}") for _ in requests]
        return frames.decode_result(frames.encode(frames.HandlerResult(answers, 0.0)))


@dataclass
class EchoEngine:
    """Takes and gives numbers of one dimension or two."""

    inputs: tuple[TensorMetadata, ...] = (TensorMetadata("x", "FP64", (-1,)),)
    optional: frozenset[str] = frozenset()
    maps: frozenset[str] = frozenset()
    outputs: tuple[TensorMetadata, ...] = ()
    platform: str = "echo"

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        return dict(inputs)


def _echoed(payload: Any) -> Any:
    if not isinstance(payload, InferRequest):
        return payload
    outputs = []
    for one in payload.inputs:
        outputs.append(InferOutput(one.name, one.shape, one.datatype, None if one.raw_data else one.data))
        if one.raw_data:
            outputs[-1].take_raw(one.raw_data)
    return InferResponse(payload.id, payload.model_name, outputs)


class Held:
    """How long the event loop was held at most, in seconds, while `watch` was open.

    Of the time between two beats only what this process computed counts: others may have the processor meanwhile.
    """

    def __init__(self) -> None:
        self.longest = 0.0
        self._last = (0.0, 0.0)
        self._is_on = False

    @contextmanager
    def watch(self) -> Iterator[None]:
        self.longest, self._is_on, self._last = 0.0, True, (time.monotonic(), time.process_time())
        self._beat()
        try:
            yield
            self._note()
        finally:
            self._is_on = False

    def _beat(self) -> None:
        if self._is_on:
            self._note()
            asyncio.get_running_loop().call_later(_BEAT_S, self._beat)

    def _note(self) -> None:
        now = (time.monotonic(), time.process_time())
        self.longest = max(self.longest, min(one - last for one, last in zip(now, self._last, strict=True)))
        self._last = now


class Served:
    """Made in the event loop that it serves."""

    def __init__(self) -> None:
        metrics = BatchMetricsRegistry(CollectorRegistry())
        handler = HandlerModel(
            "handler", "1", Echo(), limits=BatchLimits(), metrics=metrics.of_model("handler"), workers=1
        )
        self._bare = TensorModel(
            "bare", "1", EchoEngine(), limits=BatchLimits(), metrics=metrics.of_model("bare"), on_lost=print
        )
        models = serving(handler, self._bare)
        listeners = Listeners(
            listener=None,  # type: ignore[arg-type]
            host="",
            grpc_port=0,
            max_request_size=MAX_BODY,
            request_timeout_s=120.0,
            grace_period_s=1,
        )
        self._app = build_app(listeners, models, ServerMetrics())
        self._grpc = OpenInferenceServicer(models).methods()["ModelInfer"]
        self._held = Held()
        repository, threads, hooked = ModelRepository(), HookThreads(1), ServerMetrics()
        repository.update(Predicting(_echoed), "hooks")
        self._hooked = HookedModels(repository, threads, HookMetrics(hooked.registry))
        self._hooks = sdk.build_app(self._hooked, hooked, timeout_s=120.0, max_request_size=MAX_BODY)

    async def close(self) -> None:
        await self._bare.close()
        await self._hooked.close()

    async def held_by(self, path: str, body: bytes, headers: Mapping[str, str]) -> tuple[float, int]:
        """Seconds, and the status of the answer; 0 is a success over gRPC."""
        gc.collect()
        gc.freeze()  # what other requests have left is not the server's to look through
        with self._held.watch():
            status = await (self._post(path, body, headers) if path.startswith("/") else self._infer(path, body))
        return self._held.longest, status

    async def _post(self, path: str, body: bytes, headers: Mapping[str, str]) -> int:
        messages = [{"type": "http.request", "body": body, "more_body": False}]
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return messages.pop() if messages else await asyncio.Future()  # the client stays

        async def send(message: Any) -> None:
            sent.append(message)

        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": pairs}
        app = self._hooks if "/hooks" in path else self._app
        await app(scope, receive, send)
        return int(sent[0]["status"])

    async def _infer(self, model: str, body: bytes) -> int:
        addressed = pb.ModelInferRequest(model_name=model).SerializeToString() + body
        try:
            await self._grpc(addressed, Call((), "1", bool))
        except ServingError as error:
            return error.status
        return 0
