"""A model that is one file without a handler: it computes tensors from tensors in a thread of this process."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Hashable, Sequence
from functools import partial

from data_plane.batching import merge
from data_plane.batching.limits import BatchLimits
from data_plane.batching.merge import Array, Arrays
from data_plane.batching.metrics import BatchMetrics
from data_plane.batching.queue import Batch, BatchQueue
from data_plane.errors import InferenceFailed, ServingError, UnprocessableInput, Unsupported
from data_plane.messages import Response
from data_plane.model import Call
from data_plane.off_loop import off_loop
from data_plane.protocol import v1
from data_plane.protocol.torchserve.requests import RawRequest
from data_plane.protocol.v1 import PredictRequest
from data_plane.protocol.v2 import rest
from data_plane.protocol.v2.document import NotV2, body_response, json_length
from data_plane.protocol.v2.requests import ModelMetadata, TensorRequest, TensorResponse
from data_plane.protocol.v2.tensors import Tensor
from mar_runtime.engines import Engine, GpuLost
from mar_runtime.engines.signature import takes_rows
from mar_runtime.models import instances
from mar_runtime.models.instances import Instances
from mar_runtime.models.rows import ShownRows, has_rows, may_merge
from mar_runtime.pool.work_thread import WorkThread

_MAPS_LEFT_OUT = (
    "which has a map for each row, and no tensor holds that. Use the v1 protocol, or convert the model with skl2onnx's "
    "options={'zipmap': False}, which makes it a tensor"
)


class TensorModel:
    """One version of a model, run by `engine`; `ahead` is passed to BatchQueue.

    `on_lost` is called when the server's process cannot use the GPU any more.
    """

    def __init__(
        self,
        name: str,
        version: str,
        engine: Engine,
        *,
        limits: BatchLimits,
        metrics: BatchMetrics,
        on_lost: Callable[[GpuLost], object],
        ahead: bool = False,
    ) -> None:
        self.name = name
        self.version = version
        self._engine = engine
        self._on_lost = on_lost
        self._thread = WorkThread(f"engine of {name}")  # torch releases the GIL while it computes
        self._instances = Instances(name, engine.inputs, takes_rows(engine.inputs, engine.optional), engine.optional)
        self._scalars = {tensor.name for tensor in engine.inputs if not tensor.shape}
        self._shown = ShownRows()
        merging = self._instances.are_rows and may_merge(engine.inputs, engine.outputs)
        self.queue: BatchQueue[Arrays, dict[str, Array]] = BatchQueue(
            name, self._run, limits, metrics, alone=self._shown, merging=merging, ahead=ahead
        )

    async def drained(self) -> None:
        """Return when no request is queued or in flight."""
        await self.queue.drained()

    async def metadata(self) -> ModelMetadata:
        """Return the inputs and outputs that the file, or model-config.yaml beside it, declares."""
        return ModelMetadata(
            self.name, (self.version,), self._engine.platform, self._engine.inputs, self._engine.outputs
        )

    async def predict(self, request: PredictRequest, call: Call) -> Response:
        """Return predictions, one for each instance."""
        runs = await off_loop(len(request.body), self._instances.read, request.body)
        if not runs:
            return Response(b'{"predictions":[]}')
        done = [one for arrays in runs for one in await self._predictions(arrays, call)]
        size = sum([array.nbytes for outputs, _ in done for array in outputs.values()])
        return await off_loop(size, instances.response, done)

    async def explain(self, request: PredictRequest, call: Call) -> Response:  # noqa: ARG002 - of the protocol
        """Raise Unsupported: a file without a handler has no explanations."""
        raise self._unexplained()

    async def infer(self, request: TensorRequest, call: Call) -> TensorResponse:
        """Return the outputs that tensors can carry. Inputs are matched by name; a single input may have any name."""
        maps = self._engine.maps
        if any(output.name in maps for output in request.outputs):
            raise self._left_out_alone()
        outputs = await self._submit(self._inputs(request), call)
        tensors = {name: array for name, array in outputs.items() if name not in maps}
        if not tensors:
            raise self._left_out_alone()
        texts = sum([array.nbytes for array in tensors.values() if array.dtype == object])
        left_out = {"left_out": self._left_out()} if maps else {}
        return TensorResponse(self.name, self.version, await off_loop(texts, _tensors, tensors), request.id, left_out)

    async def raw(self, request: RawRequest, call: Call) -> Response:
        """Return the response to a v2 request, which may have binary tensors, or else to a v1 request.

        There is no handler for other bodies.
        """
        if request.explain:
            raise self._unexplained()
        length = json_length(call.headers)
        try:
            tensors = await off_loop(len(request.body), rest.decode_request, request.body, length)
        except NotV2:
            decode = partial(v1.decode_request, takes_files=False)
            return await self.predict(await off_loop(len(request.body), decode, request.body), call)
        response = await self.infer(tensors, call)
        return body_response(*await off_loop(response.size, rest.encode_response, response, tensors))

    async def close(self) -> None:
        """End the thread after its last batch."""
        self._thread.close()

    async def _predictions(self, arrays: Arrays, call: Call) -> list[tuple[Arrays, bool]]:
        """Run instances, one by one if the outputs are not a row for each; see `instances.response` for the result."""
        outputs = await self._submit(arrays, call)
        rows, key = merge.rows_of(arrays), merge.key_of(arrays)
        if not self._instances.are_rows or rows == 1:
            return [(outputs, not self._instances.are_rows or self._are_whole(key, outputs, rows))]
        alone = [{name: array[row : row + 1] for name, array in arrays.items()} for row in range(rows)]
        if self.queue.merging and not self._shown.are_proven(key) and key not in self._shown:
            with contextlib.suppress(UnprocessableInput, InferenceFailed):  # there are models that take no single row
                await self._submit(alone[0], call)
        if not self._are_whole(key, outputs, rows):
            return [(outputs, False)]
        return [(await self._submit(one, call), True) for one in alone]

    def _are_whole(self, key: Hashable, outputs: Arrays, rows: int) -> bool:
        return self._shown.are_whole(key) or not has_rows(outputs, rows)

    async def _submit(self, arrays: Arrays, call: Call) -> dict[str, Array]:
        if not self._instances.are_rows:
            return await self.queue.submit(arrays, 1, object(), call)
        key = merge.key_of(arrays) if self._can_merge(arrays) else object()
        return await self.queue.submit(arrays, merge.rows_of(arrays), key, call)

    def _can_merge(self, arrays: Arrays) -> bool:
        """Return whether the inputs have the same number of rows, and none is one value for all of them."""
        return merge.can_merge(arrays) and not arrays.keys() & self._scalars

    async def _run(self, batch: Batch[Arrays]) -> Sequence[dict[str, Array] | ServingError]:
        sizes = [merge.rows_of(arrays) for arrays in batch.payloads]
        inputs = merge.merge(batch.payloads)
        try:
            results, batch.model_s = await self._thread.run(lambda: self._run_timed(inputs))
        except UnprocessableInput as error:
            if len(sizes) == 1:
                raise
            raise InferenceFailed(error.message) from error  # each request alone may be valid
        except GpuLost as error:
            self._on_lost(error)
            raise
        if self.queue.merging and self._can_merge(inputs):
            self._shown.observe(batch.key, sum(sizes), results)
        if len(sizes) > 1 and not self._shown.are_proven(batch.key):
            raise InferenceFailed(f"The outputs of model {self.name} are not known to be rows.")  # each runs alone
        return merge.split(results, sizes)

    def _run_timed(self, inputs: Arrays) -> tuple[dict[str, Array], float]:
        started = time.perf_counter()
        return self._engine.run(inputs), time.perf_counter() - started

    def _inputs(self, request: TensorRequest) -> Arrays:
        given = {tensor.name: tensor.data for tensor in request.inputs}
        return {tensor.name: given[name] for name, tensor in self._instances.matched(given).items()}

    def _left_out_alone(self) -> UnprocessableInput:
        return UnprocessableInput(f"Model {self.name} cannot give over the v2 protocol: {self._left_out()}.")

    def _left_out(self) -> str:
        return f"{', '.join(sorted(self._engine.maps))}, {_MAPS_LEFT_OUT}"

    def _unexplained(self) -> Unsupported:
        return Unsupported(f"Model {self.name} has no handler that could explain its predictions.")


def _tensors(outputs: Arrays) -> tuple[Tensor, ...]:
    return tuple(Tensor.from_numpy(name, array) for name, array in outputs.items())
