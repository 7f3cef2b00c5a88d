"""The inputs and outputs of a model, and the checks of requests and responses against them. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from data_plane.errors import InferenceFailed, InvalidRequest, UnprocessableInput
from data_plane.protocol.v2.requests import TensorMetadata
from data_plane.protocol.v2.shapes import check_lists
from data_plane.protocol.v2.tensors import Array, Tensor, dtype


@dataclass(frozen=True, slots=True)
class Signature:
    """Inputs in the order the model takes them. An input of shape () takes one value."""

    inputs: tuple[TensorMetadata, ...]
    outputs: tuple[TensorMetadata, ...] = ()
    optional: frozenset[str] = frozenset()
    is_guess: bool = False  # datatypes and shapes are defaults, which nothing is held against
    is_uneven: bool = False  # the first sizes of the inputs have different names

    def accept(self, given: Mapping[str, Array]) -> dict[str, Array]:
        """The request's arrays by the model's names; raises UnprocessableInput unless they are what it takes."""
        if self.is_guess and len(given) == len(self.inputs) == 1:
            given = dict(zip((self.inputs[0].name,), given.values(), strict=True))
        self._check_names(given)
        arrays = {**given, **{one.name: _one_value(one, given[one.name]) for one in self._scalars(given)}}
        if not self.is_guess:
            for metadata in self.inputs:
                if metadata.name in arrays:
                    _check(metadata, arrays[metadata.name])
            if not self.is_uneven and takes_rows(self.inputs, self.optional):
                _check_one_batch({name: array for name, array in arrays.items() if array.ndim})
        return arrays

    def _scalars(self, given: Mapping[str, Array]) -> Iterator[TensorMetadata]:
        return (metadata for metadata in self.inputs if metadata.shape == () and metadata.name in given)

    def _check_names(self, given: Mapping[str, Array]) -> None:
        names = [metadata.name for metadata in self.inputs]
        unknown = [name for name in given if name not in names]
        missing = [name for name in names if name not in given and name not in self.optional]
        if unknown or missing:
            found = f"unknown: {', '.join(unknown)}" if unknown else f"missing: {', '.join(missing)}"
            raise UnprocessableInput(f"The model takes the inputs {', '.join(names)}; {found}.")


def takes_rows(inputs: Sequence[TensorMetadata], optional: Container[str]) -> bool:
    """Whether the inputs share their first size, and so a request may have many rows; an optional scalar fits all."""
    sizes = {metadata.shape[:1] for metadata in inputs if metadata.shape or metadata.name not in optional}
    return len(sizes) == 1 and () not in sizes


def _one_value(metadata: TensorMetadata, array: Array) -> Array:
    if array.size != 1:
        raise UnprocessableInput(
            f'Input "{metadata.name}" has the shape {list(array.shape)}; the model takes one {metadata.datatype}.'
        )
    return array.reshape(())


def _check(metadata: TensorMetadata, array: Array) -> None:
    wanted = np.dtype(object) if metadata.datatype == "BYTES" else dtype(metadata.name, metadata.datatype)
    if array.dtype != wanted:
        raise UnprocessableInput(f'Input "{metadata.name}" is {_datatype(array)}; the model takes {metadata.datatype}.')
    if not _fits(metadata.shape, array.shape):
        raise UnprocessableInput(
            f'Input "{metadata.name}" has the shape {list(array.shape)}; the model takes {list(metadata.shape)}, '
            "where -1 is any size."
        )


def _datatype(array: Array) -> str:
    try:
        return Tensor.from_numpy("", array).datatype
    except TypeError:
        return str(array.dtype)


def _fits(declared: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    return len(declared) == len(shape) and all(
        size in (-1, actual) for size, actual in zip(declared, shape, strict=True)
    )


def _check_one_batch(arrays: Mapping[str, Array]) -> None:
    if len({array.shape[0] for array in arrays.values()}) > 1:
        shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items())
        raise UnprocessableInput(f"The first size of every input is the batch, the same for all; got {shapes}.")


def check_outputs(outputs: Mapping[str, Array]) -> None:
    """Raises InferenceFailed unless every output can be sent."""
    for name, array in outputs.items():
        try:
            check_lists(name, array.shape)
        except InvalidRequest as error:
            raise InferenceFailed(f"The model's outputs cannot be sent: {error}") from error
