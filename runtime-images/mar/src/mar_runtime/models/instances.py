"""The v1 protocol's instances and predictions of a model without a handler. Pure.

An instance is a row of each input, and a prediction a row of each output. Of a model whose inputs do not share their
first dimension, an instance is all of the inputs, and a prediction all of the outputs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from data_plane.batching.merge import Array, Arrays
from data_plane.errors import InvalidRequest, UnprocessableInput
from data_plane.messages import Response
from data_plane.protocol import json_text
from data_plane.protocol.v2 import rest
from data_plane.protocol.v2.document import TensorDocument
from data_plane.protocol.v2.requests import TensorMetadata

# Instances that are tried one by one to find the invalid one.
_MAX_CHECKED = 1000
_TENSOR = {"name", "datatype", "shape", "data"}  # the fields of one in the v2 protocol
_JSON_OPTIONS = orjson.OPT_SERIALIZE_NUMPY


@dataclass(frozen=True)
class Instances:
    """The instances of a model with these inputs."""

    model: str
    inputs: Sequence[TensorMetadata]
    are_rows: bool
    optional: Set[str] = frozenset()  # the inputs that may be left out

    def matched(self, given: Collection[str]) -> dict[str, TensorMetadata]:
        """Return the input that each name of a request stands for; a single input may have any name.

        Raises UnprocessableInput.
        """
        known = {tensor.name: tensor for tensor in self.inputs}
        if known.keys() >= set(given):
            return {name: tensor for name, tensor in known.items() if name in given}
        needed = [tensor for tensor in self.inputs if tensor.shape or tensor.name not in self.optional]
        if len(given) == len(needed) == 1:
            return dict(zip(given, needed, strict=True))
        raise UnprocessableInput(
            f"Model {self.model} takes the inputs {', '.join(known)}; the request has {', '.join(given)}."
        )

    def read(self, body: bytes) -> list[Arrays]:
        """Return the runs that a body asks for: one with all rows if they may be one, else one for each instance.

        Raises InvalidRequest and UnprocessableInput.
        """
        instances = _instances(body)
        if not instances:
            return []
        known = self._known(instances[0])
        takes_one = len(instances) > 1 and any(tensor.shape[:1] == (1,) for tensor in known.values())
        if not self.are_rows or takes_one or not all(tensor.shape for tensor in known.values()):
            return [self._alone(index, instance) for index, instance in enumerate(instances)]
        if isinstance(instances[0], dict):
            return [{one.name: _rows(one.name, one.datatype, _column(instances, name)) for name, one in known.items()}]
        (first,) = known.values()
        return [{first.name: _rows(first.name, first.datatype, instances)}]

    def _known(self, instance: Any) -> dict[str, TensorMetadata]:
        """Return the inputs that an instance has, by the names it gives them; the first, if it gives none."""
        if not isinstance(instance, dict):
            needed = [tensor.name for tensor in self.inputs if tensor.name not in self.optional]
            if len(needed) > 1:
                raise UnprocessableInput(f"Every instance must be an object with the inputs {', '.join(needed)}.")
            return {self.inputs[0].name: self.inputs[0]}
        if instance.keys() >= _TENSOR and not instance.keys() <= {tensor.name for tensor in self.inputs}:
            raise UnprocessableInput(
                f"The request is of the v2 protocol, and this path takes v1; send it to /v2/models/{self.model}/infer."
            )
        return self.matched(instance)

    def _alone(self, index: int, instance: Any) -> Arrays:
        known = self._known(instance)
        given = instance if isinstance(instance, dict) else dict.fromkeys(known, instance)
        try:
            return {one.name: self._whole(one, given[name]) for name, one in known.items()}
        except InvalidRequest as error:
            raise UnprocessableInput(f"Instance {index} cannot be read. {error.message}") from error

    def _whole(self, metadata: TensorMetadata, value: Any) -> Array:
        value = [value] if self.are_rows and metadata.shape else value
        shape = _shape(value)
        return _tensor(metadata.name, metadata.datatype, shape, value if shape else [value])


def response(runs: Sequence[tuple[Arrays, bool]]) -> Response:
    """Return the predictions of runs; beside each, whether its outputs are whole, or have a row for each prediction.

    A prediction is what the only output has, or an object with what each output has.
    """
    predictions = [_predictions(*run) for run in runs]
    joined = predictions[0] if len(predictions) == 1 else [one for run in predictions for one in run]
    return Response(orjson.dumps({"predictions": joined}, option=_JSON_OPTIONS))


def _predictions(outputs: Arrays, are_whole: bool) -> Any:
    columns = {name: _plain(array) for name, array in outputs.items()}
    if are_whole:
        return [next(iter(columns.values())) if len(columns) == 1 else columns]
    if len(columns) == 1:
        (predictions,) = columns.values()
        return predictions
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _instances(body: bytes) -> list[Any]:
    """Return the instances of a body; raises InvalidRequest, for example for a number that is too large."""
    try:
        document = json_text.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"The request body is {json_text.fault(body, error)}.") from error
    instances: list[Any] = document.get("instances", document.get("inputs"))
    return instances


def _column(instances: list[Any], name: str) -> list[Any]:
    try:
        return [instance[name] for instance in instances]
    except (TypeError, KeyError):
        raise UnprocessableInput(f'Every instance must be an object with a "{name}".') from None


def _rows(name: str, datatype: str, values: list[Any]) -> Array:
    """Convert values as strictly as the v2 protocol: text, true and null are not numbers. Raises UnprocessableInput."""
    try:
        return _tensor(name, datatype, _shape(values), values)
    except InvalidRequest as error:
        raise UnprocessableInput(_describe_invalid(name, datatype, values) or error.message) from error


def _tensor(name: str, datatype: str, shape: tuple[int, ...], values: list[Any]) -> Array:
    return rest.from_json(TensorDocument(name=name, datatype=datatype, shape=shape, data=values), {}).data


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
            _tensor(name, datatype, _shape([instance]), [instance])
        except InvalidRequest as error:
            return f"Instance {index} cannot be read. {error.message}"
    return ""


def _plain(array: Array) -> Any:
    """Return the array as orjson can write it, directly if it contains numbers."""
    if array.dtype.kind in "OSU":
        return _text(array.tolist())
    if not array.ndim:
        return array.item()
    if array.dtype == np.float16:
        return array.astype(np.float32)
    return np.ascontiguousarray(array)


def _text(value: Any) -> Any:
    if isinstance(value, list):
        return [_text(one) for one in value]
    if isinstance(value, Mapping):
        return {str(key): one for key, one in value.items()}
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
