"""A model that is one file without a handler: it computes tensors from tensors in a thread of this process."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import orjson

from data_plane.batching import merge
from data_plane.batching.limits import BatchLimits
from data_plane.batching.merge import Array, Arrays
from data_plane.batching.metrics import BatchMetrics
from data_plane.batching.queue import Batch, BatchQueue
from data_plane.errors import InferenceFailed, InvalidRequest, ServingError, UnprocessableInput, Unsupported
from data_plane.messages import Response
from data_plane.model import Call
from data_plane.off_loop import off_loop
from data_plane.protocol import json_text
from data_plane.protocol.torchserve.requests import RawRequest
from data_plane.protocol.v1 import PredictRequest
from data_plane.protocol.v2 import rest
from data_plane.protocol.v2.document import TensorDocument, body_response, json_length
from data_plane.protocol.v2.requests import ModelMetadata, TensorRequest, TensorResponse
from data_plane.protocol.v2.tensors import Tensor
from mar_runtime.engines import Engine
from mar_runtime.pool.work_thread import WorkThread

# Instances that are tried one by one to find the invalid one.
_MAX_CHECKED = 1000
_JSON_OPTIONS = orjson.OPT_SERIALIZE_NUMPY


class TensorModel:
    """One version of a model, run by `engine`; `ahead` is passed to BatchQueue."""

    def __init__(
        self,
        name: str,
        version: str,
        engine: Engine,
        *,
        limits: BatchLimits,
        metrics: BatchMetrics,
        ahead: bool = False,
    ) -> None:
        self.name = name
        self.version = version
        self._engine = engine
        self._thread = WorkThread(f"engine of {name}")  # torch releases the GIL while it computes
        # A model whose first dimension is fixed takes that batch size only.
        merging = all(tensor.shape[:1] in ((), (-1,)) for tensor in engine.inputs)
        self.queue: BatchQueue[Arrays, dict[str, Array]] = BatchQueue(
            name, self._run, limits, metrics, merging=merging, ahead=ahead
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
        """Return predictions. An instance is a row of the only input, or an object with a row for each input."""
        arrays = await off_loop(json_text.weight(request.body), self._arrays, request.body)
        if not arrays:
            return Response(b'{"predictions":[]}')
        outputs = await self._submit(arrays, call)
        return await off_loop(sum([array.nbytes for array in outputs.values()]), _response, outputs)

    async def explain(self, request: PredictRequest, call: Call) -> Response:  # noqa: ARG002 - of the protocol
        """Raise Unsupported: a file without a handler has no explanations."""
        raise self._unexplained()

    async def infer(self, request: TensorRequest, call: Call) -> TensorResponse:
        """Return the outputs. Inputs are matched by name; a single input may have any name."""
        outputs = await self._submit(self._inputs(request), call)
        texts = sum([array.nbytes for array in outputs.values() if array.dtype == object])
        return TensorResponse(self.name, self.version, await off_loop(texts, _tensors, outputs), request.id)

    async def raw(self, request: RawRequest, call: Call) -> Response:
        """Return the response to a v2 request, which may have binary tensors; there is no handler for other bodies."""
        if request.explain:
            raise self._unexplained()
        length = json_length(call.headers)
        tensors = await off_loop(rest.weight(request.body, length), rest.decode_request, request.body, length)
        response = await self.infer(tensors, call)
        return body_response(*await off_loop(response.size, rest.encode_response, response, tensors))

    async def close(self) -> None:
        """End the thread after its last batch."""
        self._thread.close()

    async def _submit(self, arrays: Arrays, call: Call) -> dict[str, Array]:
        # A request whose inputs have different numbers of rows cannot be merged with others.
        key = merge.key_of(arrays) if merge.can_merge(arrays) else object()
        return await self.queue.submit(arrays, merge.rows_of(arrays), key, call)

    async def _run(self, batch: Batch[Arrays]) -> Sequence[dict[str, Array] | ServingError]:
        sizes = [merge.rows_of(arrays) for arrays in batch.payloads]
        inputs = merge.merge(batch.payloads)
        try:
            results, batch.model_s = await self._thread.run(lambda: self._run_timed(inputs))
        except UnprocessableInput as error:
            if len(sizes) == 1:
                raise
            raise InferenceFailed(error.message) from error  # each request alone may be valid
        return merge.split(results, sizes)

    def _run_timed(self, inputs: Arrays) -> tuple[dict[str, Array], float]:
        started = time.perf_counter()
        return self._engine.run(inputs), time.perf_counter() - started

    def _arrays(self, body: bytes) -> Arrays:
        """Return the instances of a body as arrays; empty if there are none."""
        instances = _instances(body)
        if not instances:
            return {}
        first, *others = self._engine.inputs
        if not isinstance(instances[0], dict):
            return {first.name: _array(first.name, first.datatype, instances)}
        given = instances[0]
        known = [tensor for tensor in (first, *others) if tensor.name in given]
        if len(known) < len(given):
            raise self._unknown(given)
        return {tensor.name: _array(tensor.name, tensor.datatype, _column(instances, tensor.name)) for tensor in known}

    def _inputs(self, request: TensorRequest) -> Arrays:
        expected = [tensor.name for tensor in self._engine.inputs]
        if len(expected) == len(request.inputs) == 1:
            return {expected[0]: request.inputs[0].data}
        given = {tensor.name: tensor.data for tensor in request.inputs}
        if not given.keys() <= set(expected):
            raise self._unknown(given)
        return {name: given[name] for name in expected if name in given}

    def _unexplained(self) -> Unsupported:
        return Unsupported(f"Model {self.name} has no handler that could explain its predictions.")

    def _unknown(self, given: Iterable[str]) -> UnprocessableInput:
        expected = ", ".join(tensor.name for tensor in self._engine.inputs)
        return UnprocessableInput(f"Model {self.name} takes the inputs {expected}; the request has {', '.join(given)}.")


def _instances(body: bytes) -> list[Any]:
    """Return the instances of a body; raises InvalidRequest, for example for a number that is too large."""
    try:
        document = json_text.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"The request body is not valid JSON: {error.msg}.") from error
    instances: list[Any] = document.get("instances", document.get("inputs"))
    return instances


def _column(instances: list[Any], name: str) -> list[Any]:
    try:
        return [instance[name] for instance in instances]
    except (TypeError, KeyError):
        raise UnprocessableInput(f'Every instance must be an object with a "{name}".') from None


def _array(name: str, datatype: str, values: list[Any]) -> Array:
    """Convert values as strictly as the v2 protocol: text, true and null are not numbers. Raises UnprocessableInput."""
    try:
        return _tensor(name, datatype, values)
    except InvalidRequest as error:
        raise UnprocessableInput(_describe_invalid(name, datatype, values) or error.message) from error


def _tensor(name: str, datatype: str, values: list[Any]) -> Array:
    return rest.from_json(TensorDocument(name=name, datatype=datatype, shape=_shape(values), data=values), {}).data


def _shape(values: Any) -> tuple[int, ...]:
    """Return the shape given by the first element of each level; other elements are checked later."""
    shape = []
    while type(values) is list:
        shape.append(len(values))
        values = values[0] if values else None
    return tuple(shape)


def _describe_invalid(name: str, datatype: str, instances: list[Any]) -> str:
    """Describe the first invalid instance; empty if each is valid alone, or too many come before it."""
    for index, instance in enumerate(instances[:_MAX_CHECKED]):
        try:
            _tensor(name, datatype, [instance])
        except InvalidRequest as error:
            return f"Instance {index} cannot be read. {error.message}"
    return ""


def _tensors(outputs: Arrays) -> tuple[Tensor, ...]:
    return tuple(Tensor.from_numpy(name, array) for name, array in outputs.items())


def _response(outputs: Arrays) -> Response:
    """Return predictions: the rows of the only output, or an object with the outputs of each row."""
    columns = {name: _plain(array) for name, array in outputs.items()}
    if len(columns) == 1:
        (predictions,) = columns.values()
    else:
        predictions = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return Response(orjson.dumps({"predictions": predictions}, option=_JSON_OPTIONS))


def _plain(array: Array) -> Any:
    """Return the array as orjson can write it, directly if it contains numbers."""
    if array.dtype.kind in "OSU":
        return [_text(value) for value in array.tolist()]
    if array.dtype == np.float16:
        return array.astype(np.float32)
    return np.ascontiguousarray(array)


def _text(value: Any) -> Any:
    if isinstance(value, list):
        return [_text(one) for one in value]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
