"""Adapter from a user's model to a model of the data plane."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from data_plane import limits
from data_plane.client.responses import UpstreamResponse
from data_plane.errors import InvalidRequest, NotReady, ServingError, Unsupported, UpstreamBroken
from data_plane.health import READY, Health, State
from data_plane.messages import Response, StreamingResponse, text_of
from data_plane.model import Call, Forwarder, Models
from data_plane.off_loop import off_loop
from transformer_sdk.kserve.constants.constants import PredictorProtocol
from transformer_sdk.kserve.hooks import call
from transformer_sdk.kserve.inference_client import decode_infer
from transformer_sdk.kserve.model import BaseKServeModel, InferenceVerb, Model
from transformer_sdk.kserve.protocol.infer_type import InferRequest, InferResponse
from transformer_sdk.kserve.protocol.weight import weight
from transformer_sdk.kserve.serving.errors import HookFailed
from transformer_sdk.kserve.serving.exchange import Exchange
from transformer_sdk.kserve.serving.pipeline import Pipeline
from transformer_sdk.kserve.serving.results import inconsistent, to_response

if TYPE_CHECKING:
    from data_plane.protocol.torchserve.requests import RawRequest
    from data_plane.protocol.v1 import PredictRequest
    from data_plane.protocol.v2.requests import ModelMetadata, TensorMetadata, TensorRequest, TensorResponse

log = logging.getLogger(__name__)

_GRPC = PredictorProtocol.GRPC_V2.value
_PROBE_S = 5.0
UNREADY = Health(State.UNREADY, "reports that it is not ready")


class ServedModel(Forwarder):
    """A model of `data_plane.model.Models`; `name` may differ from the model's own."""

    version = "1"

    def __init__(
        self,
        name: str,
        model: Model,
        pipeline: Pipeline,
        *,
        given: BaseKServeModel,
        is_ready_hook: Callable[[], Any] | None,
    ) -> None:
        """`given` is the repository's model; `is_ready_hook`, if any, replaces its attribute `ready`."""
        self.name = name
        self.model = model
        self.given = given
        self._pipeline = pipeline
        self.is_ready_hook = is_ready_hook

    async def respond(self, exchange: Exchange) -> Response | StreamingResponse:
        """Return the response to an HTTP request; raises ServingErrors only."""
        if not (health := await self.health()).is_ready:
            raise NotReady(f"Model with name {self.name} is not ready: it {health.reason}.")
        result = await self._pipeline.result(exchange)
        return await off_loop(weight(result), to_response, result, exchange)

    async def types(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the types of the inputs and outputs from the model's hooks, sync or async."""
        return await self._described("get_input_types"), await self._described("get_output_types")

    async def health(self) -> Health:
        """Return READY, or UNREADY with the reason, as the user's model reports it now."""
        if self.is_ready_hook is None:
            return READY if self.model.ready else UNREADY
        asked = asyncio.ensure_future(call(self.is_ready_hook))
        try:
            # Not `wait_for`: that of Python 3.10 and 3.11 loses a cancellation that comes together with the result.
            await asyncio.wait([asked], timeout=limits.HEALTHY_TIMEOUT)
            if not asked.done():
                return _unready(f"did not report within {limits.HEALTHY_TIMEOUT:g} s whether it is ready")
            return READY if asked.result() else UNREADY
        except Exception as error:  # noqa: BLE001 - after any exception the model is not ready
            return _unready(
                f"cannot report whether it is ready: its `healthy` raised {type(error).__name__}: {text_of(error)}"
            )
        finally:
            asked.cancel()

    async def refresh(self, models: Models) -> None:
        """Record whether the model can serve requests and, where the configuration says so, its predictor."""
        health = await self.health()
        if health.is_ready:
            health = await self._predictor_health()
        # A new reason is logged once: users do not see the responses to probes.
        if models.record(self.name, health.state, health.reason) and not health.is_ready:
            log.warning("model %s is not ready: %s", self.name, health.reason)

    async def _predictor_health(self) -> Health:
        config = self.model.predictor_config
        if config is None or not config.predictor_health_check:
            return READY
        try:
            if config.predictor_protocol == _GRPC:
                ready = await self.model._grpc_client.is_model_ready(self.model.name, timeout=_PROBE_S)
            else:
                client, url = self.model._http_client, config.predictor_base_url
                ready = await client.is_model_ready(url, self.model.name, timeout=_PROBE_S)
        except ServingError as error:
            return _unready(f"waits for its predictor: {error.message}")
        if ready:
            return READY
        return _unready(f"waits for its predictor: the one at {config.predictor_base_url} is not ready")

    async def _described(self, method: str) -> list[dict[str, Any]]:
        try:
            described = await call(getattr(self.model, method))
        except Exception as error:
            log.exception("%s of model %s raised", method, self.name)
            raise HookFailed(
                f"{method} of model {self.name} raised {type(error).__name__}: {text_of(error)}"
            ) from error
        if not isinstance(described, (list, tuple)):
            raise HookFailed(f"{method} of model {self.name} returned {type(described).__name__}; it returns a list.")
        return list(described)

    # --- the interface of `data_plane.model.Model`, for gRPC

    async def metadata(self) -> ModelMetadata:
        from data_plane.protocol.v2.requests import ModelMetadata

        inputs, outputs = await self.types()
        return ModelMetadata(self.name, (self.version,), "", _tensors(inputs), _tensors(outputs))

    async def infer(self, request: TensorRequest, call: Call) -> TensorResponse:
        from transformer_sdk.kserve.protocol.conversion import response_of_message

        decoded = await off_loop(request.size, InferRequest.from_tensors, request, self.name)
        result = await self._pipeline.result(Exchange(self.name, "v2", call, decoded=decoded))
        if isinstance(result, UpstreamResponse):
            result = decode_infer(result, "its address")
        if isinstance(result, InferResponse):
            try:
                return await off_loop(weight(result), result.to_tensors)
            except InvalidRequest as error:
                raise inconsistent(self.name, error) from error
        try:
            return response_of_message(result)
        except (TypeError, UpstreamBroken) as error:
            raise HookFailed(
                f"Model {self.name} returned {type(result).__name__}, which gRPC does not send: {error}."
            ) from error

    @property
    def forwards(self) -> bool:
        return self._pipeline.forwards

    async def forward(self, message: bytes, call: Call) -> bytes:
        return await self._pipeline.forward(Exchange(self.name, "v2", call, message))

    async def predict(self, request: PredictRequest, call: Call) -> Response:
        return _whole(await self.respond(Exchange(self.name, "v1", call, request.body)))

    async def explain(self, request: PredictRequest, call: Call) -> Response:
        return _whole(await self.respond(Exchange(self.name, "v1", call, request.body, InferenceVerb.EXPLAIN)))

    async def raw(self, request: RawRequest, call: Call) -> Response:
        verb = InferenceVerb.EXPLAIN if request.explain else InferenceVerb.PREDICT
        return _whole(await self.respond(Exchange(self.name, "v1", call, request.body, verb)))


def _unready(reason: str) -> Health:
    return Health(State.UNREADY, reason)


def _whole(response: Response | StreamingResponse) -> Response:
    if isinstance(response, StreamingResponse):
        raise Unsupported("This model streams its response, which is supported over HTTP only.")
    return response


def _tensors(described: Sequence[dict[str, Any]]) -> tuple[TensorMetadata, ...]:
    from data_plane.protocol.v2.requests import TensorMetadata

    return tuple(TensorMetadata(one["name"], one["datatype"], tuple(one["shape"])) for one in described)
