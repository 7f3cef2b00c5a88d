"""A model file whose engine is a function: a fake of what torch and onnxruntime do, behind both protocols."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import orjson
from prometheus_client import CollectorRegistry

from data_plane.batching.limits import BatchLimits
from data_plane.batching.metrics import BatchMetricsRegistry
from data_plane.errors import InferenceFailed, ServingError, UnprocessableInput
from data_plane.protocol import v1
from data_plane.protocol.v2.requests import TensorMetadata, TensorRequest, TensorResponse
from data_plane.protocol.v2.tensors import Array, Tensor
from mar_runtime.engines import Engine
from mar_runtime.engines.signature import Signature
from mar_runtime.models.tensor_model import TensorModel
from tests.support.batching import call

Outputs = Mapping[str, Array]

ROWS = TensorMetadata("rows", "FP32", (-1, 2))
TEXTS = TensorMetadata("texts", "BYTES", (-1,))


def doubled(inputs: Outputs) -> Outputs:
    """Refuses negative numbers and fails on those over 100."""
    rows = inputs["rows"]
    if (rows < 0).any():
        raise UnprocessableInput("no negative numbers")
    if (rows > 100).any():
        raise InferenceFailed("too large")
    return {"out": rows * 2}


class FakeEngine(Engine):
    """Keeps the batches; the first waits while `held` is."""

    def __init__(
        self,
        function: Callable[[Outputs], Outputs] = doubled,
        inputs: tuple[TensorMetadata, ...] = (ROWS,),
        outputs: tuple[TensorMetadata, ...] = (),
        *,
        optional: frozenset[str] = frozenset(),
        maps: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__("fake", Signature(inputs, outputs, optional), maps=maps)
        self.function = function
        self.sizes: list[int] = []
        self.running, self.free = threading.Event(), threading.Event()
        self.free.set()

    def run(self, inputs: Outputs) -> dict[str, Array]:
        self.running.set()
        self.free.wait()
        self.sizes.append(max((len(array) for array in inputs.values() if array.ndim), default=0))
        return dict(self.function(inputs))

    @contextmanager
    def held(self) -> Iterator[None]:
        self.free.clear()
        yield
        self.free.set()


def serve(engine: FakeEngine) -> TensorModel:
    metrics = BatchMetricsRegistry(CollectorRegistry()).of_model("m")
    return TensorModel("m", "1", engine, limits=BatchLimits(), metrics=metrics, on_lost=print)


async def predict(engine: FakeEngine, instances: Any, **others: Any) -> Any:
    body = orjson.dumps({"instances": instances, **others})
    return orjson.loads((await serve(engine).predict(v1.decode_request(body), call())).body)["predictions"]


def request(**tensors: Any) -> TensorRequest:
    return TensorRequest(tuple(Tensor.from_numpy(name, np.array(values)) for name, values in tensors.items()), "42")


def rows(*values: float) -> TensorRequest:
    return TensorRequest((Tensor.from_numpy("rows", np.array([[value, value] for value in values], np.float32)),), "42")


def plain(response: TensorResponse) -> dict[str, Any]:
    return {tensor.name: tensor.data.tolist() for tensor in response.outputs}


async def ask_while_busy(
    engine: FakeEngine, *requests: TensorRequest
) -> list[dict[str, Any] | ServingError | BaseException]:
    """The answers to requests that queue up behind another."""
    model = serve(engine)
    with engine.held():
        first = asyncio.ensure_future(model.infer(rows(0), call()))
        await asyncio.to_thread(engine.running.wait)
        others = [asyncio.ensure_future(model.infer(one, call())) for one in requests]
        await asyncio.sleep(0)
        assert model.queue.waiting == len(requests)
    await first
    answers = await asyncio.gather(*others, return_exceptions=True)
    return [plain(answer) if isinstance(answer, TensorResponse) else answer for answer in answers]
