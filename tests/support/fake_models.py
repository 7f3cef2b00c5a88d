"""A model whose answers a test chooses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from data_plane.errors import Unsupported
from data_plane.health import State
from data_plane.messages import Response
from data_plane.model import Call, Models, ServableModel
from data_plane.protocol.torchserve.requests import RawRequest
from data_plane.protocol.v1 import PredictRequest
from data_plane.protocol.v2.requests import ModelMetadata, TensorMetadata, TensorRequest, TensorResponse

Infer = Callable[[TensorRequest, Call], Awaitable[TensorResponse]]


async def echo(request: TensorRequest, _: Call) -> TensorResponse:
    """The inputs as outputs."""
    return TensorResponse("m", "1", request.inputs)


@dataclass
class FakeModel:
    """Infers by `answer`, and keeps the calls."""

    answer: Infer = echo
    name: str = "m"
    version: str = "1"
    calls: list[Call] = field(default_factory=list)

    async def metadata(self) -> ModelMetadata:
        return ModelMetadata(self.name, (self.version,), "fake", (TensorMetadata("x", "FP32", (-1, 2)),), ())

    async def infer(self, request: TensorRequest, call: Call) -> TensorResponse:
        self.calls.append(call)
        return await self.answer(request, call)

    async def predict(self, request: PredictRequest, call: Call) -> Response:
        raise Unsupported("v2 only")

    async def explain(self, request: PredictRequest, call: Call) -> Response:
        raise Unsupported("v2 only")

    async def raw(self, request: RawRequest, call: Call) -> Response:
        raise Unsupported("v2 only")


def serving(*models: ServableModel, expected: tuple[str, ...] = ()) -> Models:
    """A registry with these models, which are ready, and with `expected`, which are not."""
    registry = Models(expected)
    for model in models:
        registry.add(model)
        registry.record(model.name, State.READY)
    return registry
