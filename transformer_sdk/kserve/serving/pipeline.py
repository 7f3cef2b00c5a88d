"""Run a model's hooks in order around a request to its predictor; a body is decoded only if a hook needs it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from prometheus_client import Histogram

from data_plane.client.responses import UpstreamResponse
from data_plane.errors import Unsupported
from data_plane.limits import ON_LOOP_BYTES
from data_plane.off_loop import off_loop
from transformer_sdk.kserve.constants.constants import PredictorProtocol
from transformer_sdk.kserve.errors import InvalidInput
from transformer_sdk.kserve.inference_client import decode_infer, decode_json, encode
from transformer_sdk.kserve.logging import trace_logger
from transformer_sdk.kserve.model import InferenceVerb, Model
from transformer_sdk.kserve.protocol.infer_type import InferRequest
from transformer_sdk.kserve.protocol.weight import weight
from transformer_sdk.kserve.serving.errors import HookFailed
from transformer_sdk.kserve.serving.exchange import UNREAD, Exchange
from transformer_sdk.kserve.serving.hooks import Hook
from transformer_sdk.kserve.serving.threads import HookThreads

_GRPC = PredictorProtocol.GRPC_V2.value
_PATHS = {"v1": "/v1/models/{}:predict", "v2": "/v2/models/{}/infer"}
_EXPLAIN = "/v1/models/{}:explain"


class Pipeline:
    def __init__(self, model: Model, threads: HookThreads, stages: Mapping[str, Histogram]) -> None:
        self._model = model
        self._stages = stages
        self._whole = Hook(model, "__call__", threads)
        self._preprocess = Hook(model, "preprocess", threads)
        self._validate = Hook(model, "validate", threads)
        self._predict = Hook(model, "predict", threads)
        self._explain = Hook(model, "explain", threads)
        self._postprocess = Hook(model, "postprocess", threads)
        if model.predictor_config:
            import data_plane.client.http  # noqa: F401 - takes a while, which is not to be in the first request

    @property
    def forwards(self) -> bool:
        """Whether gRPC requests are forwarded unchanged to a gRPC predictor."""
        config = self._model.predictor_config
        hooks = (self._whole, self._preprocess, self._validate, self._predict, self._postprocess)
        return (
            config is not None
            and bool(config.predictor_host)
            and config.predictor_protocol == _GRPC
            and not any(hook.overridden for hook in hooks)
        )

    async def forward(self, exchange: Exchange) -> bytes:
        """Return the predictor's gRPC response to the body, both undecoded; raises ServingErrors only."""
        times: dict[str, float] = {}
        try:
            with _timed(times, "predict"):
                metadata = self._metadata(exchange)
                return await self._model._grpc_client.forward(exchange.body, exchange.remaining_s(), metadata)
        finally:
            self._observe(times, exchange)

    async def result(self, exchange: Exchange) -> Any:
        """Return the last hook's result, or the predictor's UpstreamResponse unchanged; raises ServingErrors only."""
        if len(exchange.body) > ON_LOOP_BYTES and self._reads_content(exchange):
            await exchange.read()
        if self._whole.overridden:
            return await self._call(exchange)
        explaining = exchange.verb is InferenceVerb.EXPLAIN
        times: dict[str, float] = {}
        try:
            if self._preprocess.overridden:
                with _timed(times, "preprocess"):
                    await self._prepare(exchange, self._preprocess, exchange.headers)
            if self._validate.overridden:
                await self._prepare(exchange, self._validate)
            with _timed(times, "explain" if explaining else "predict"):
                result = await self._predicted(exchange, self._explain if explaining else self._predict)
            if self._postprocess.overridden:
                with _timed(times, "postprocess"):
                    read = result
                    if isinstance(result, UpstreamResponse):
                        read = await off_loop(len(result.body), self._read, result, exchange)
                    result = await self._postprocess(exchange, read, exchange.headers, *self._more(exchange))
            return result
        finally:
            self._observe(times, exchange)

    def _reads_content(self, exchange: Exchange) -> bool:
        """Whether the request's body is decoded here and not only forwarded."""
        called = self._explain if exchange.verb is InferenceVerb.EXPLAIN else self._predict
        hooks = (self._whole, self._preprocess, self._validate, called)
        config = self._model.predictor_config
        return any(hook.overridden for hook in hooks) or (
            config is not None and config.predictor_protocol != exchange.protocol
        )

    async def _prepare(self, exchange: Exchange, hook: Hook, *more: Any) -> None:
        exchange.payload = await hook(exchange, exchange.predicted_on(), *more)
        exchange.prepared_by = hook.what

    async def _call(self, exchange: Exchange) -> Any:
        """Call the model's own `__call__`, which decides on the order of hooks."""
        if not self._whole.takes("headers"):
            result = await self._whole(exchange, exchange.content(), exchange.headers, exchange.verb)
        elif exchange.verb is InferenceVerb.EXPLAIN:
            result = await self._whole(exchange, exchange.content(), headers=exchange.headers, verb=exchange.verb)
        else:
            result = await self._whole(exchange, exchange.content(), headers=exchange.headers)
        if isinstance(result, tuple):
            result, headers = result
            exchange.response_headers.update(headers)
        return result

    async def _predicted(self, exchange: Exchange, hook: Hook) -> Any:
        if not hook.overridden:
            return await self._request(exchange)
        payload = self._payload(exchange)
        more = self._more(exchange) if exchange.verb is InferenceVerb.PREDICT else ()
        return await hook(exchange, payload, exchange.headers, *more)

    async def _request(self, exchange: Exchange) -> Any:
        try:
            config = self._model._required_predictor()
            explaining = exchange.verb is InferenceVerb.EXPLAIN
            url = self._model._explainer_url() if explaining else config.predictor_base_url
        except NotImplementedError as error:
            raise Unsupported(str(error)) from error
        if exchange.payload is None:  # only a predict of the model's own may accept None
            raise HookFailed(f"{exchange.prepared_by} returned None: it has no return.")
        if config.predictor_protocol == _GRPC and not explaining:
            return await self._request_over_grpc(exchange)
        path = (_EXPLAIN if explaining else _PATHS[config.predictor_protocol]).format(self._model.name)
        body, length = await self._body(exchange, exchange.protocol == config.predictor_protocol)
        headers = self._headers(exchange)
        if content_type := exchange.forwarded_type():
            headers.append(("content-type", content_type.decode("latin-1")))
        timeout_s = min(exchange.remaining_s(), config.predictor_request_timeout_seconds)
        stream = exchange.takes_pieces and not self._postprocess.overridden
        response = await self._model._http_client.post(url, path, body, headers, length, timeout_s, stream=stream)
        if self._model.required_response_headers:
            exchange.response_headers.update(
                (name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers
            )
        return response

    async def _request_over_grpc(self, exchange: Exchange) -> Any:
        payload = self._payload(exchange)
        request = payload if isinstance(payload, InferRequest) else self._of_message(payload)
        return await self._model._grpc_client.infer(request, exchange.remaining_s(), self._metadata(exchange))

    def _of_message(self, payload: Any) -> InferRequest:
        from data_plane.protocol.v2.open_inference_pb2 import ModelInferRequest

        if not isinstance(payload, ModelInferRequest):
            raise HookFailed(
                f"preprocess of model {self._model.name} returned {type(payload).__name__}; "
                "over gRPC it returns an InferRequest or a ModelInferRequest."
            )
        return InferRequest.from_grpc(payload)

    async def _body(self, exchange: Exchange, same_protocol: bool) -> tuple[bytes, int | None]:
        """Return the body for the predictor: the original one if no hook has decoded it."""
        if exchange.payload is UNREAD and same_protocol and exchange.decoded is UNREAD:
            return exchange.body, exchange.json_length
        payload = self._payload(exchange)
        try:
            return await off_loop(weight(payload), encode, payload)
        except (TypeError, AttributeError) as error:
            raise HookFailed(
                f"preprocess of model {self._model.name} returned {type(payload).__name__}, which cannot be sent to a "
                f"predictor: {error}. Return what JSON can hold, an InferRequest or bytes."
            ) from error

    def _payload(self, exchange: Exchange) -> Any:
        payload = exchange.predicted_on()
        if self._validate.overridden:
            return payload
        try:
            return self._model.validate(payload)
        except InvalidInput as error:
            self._model.validate(exchange.content())  # raises where the client has sent it
            raise HookFailed(
                f"{exchange.prepared_by} returned what cannot be sent to a predictor: {error.reason}."
            ) from error

    def _read(self, response: UpstreamResponse, exchange: Exchange) -> Any:
        config = self._model._required_predictor()
        if config.predictor_protocol == PredictorProtocol.REST_V2.value and exchange.verb is InferenceVerb.PREDICT:
            return decode_infer(response, config.predictor_base_url)
        return decode_json(response, config.predictor_base_url)

    def _headers(self, exchange: Exchange) -> list[tuple[str, str]]:
        try:
            return exchange.forwarded_headers()
        except ValueError as error:
            raise HookFailed(
                f"A hook of model {self._model.name} wrote a header that cannot be sent: {error}"
            ) from error

    def _metadata(self, exchange: Exchange) -> tuple[tuple[str, str], ...]:
        return tuple(self._headers(exchange))

    def _more(self, exchange: Exchange) -> tuple[dict[str, str], ...]:
        return (exchange.response_headers,) if self._model.required_response_headers else ()

    def _observe(self, times: Mapping[str, float], exchange: Exchange) -> None:
        for stage, seconds in times.items():
            self._stages[stage].observe(seconds)
        exchange.call.timings.update(times)
        if self._model.enable_latency_logging:
            stages = ", ".join(f"{stage}_ms: {times.get(stage, 0.0) * 1000:.3f}" for stage in self._stages)
            trace_logger.info("requestId: %s, %s", exchange.call.id, stages)


class _timed:  # noqa: N801 - used like a function; contextlib.contextmanager would be slower than some stages
    def __init__(self, times: dict[str, float], stage: str) -> None:
        self._times, self._stage = times, stage

    def __enter__(self) -> None:
        self._started = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._times[self._stage] = time.perf_counter() - self._started
