"""The inputs and outputs of a model, and the checks of requests and responses against them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from data_plane.errors import InferenceFailed, InvalidRequest, UnprocessableInput
from data_plane.protocol.v2.requests import TensorMetadata
from data_plane.protocol.v2.shapes import check_lists
from data_plane.protocol.v2.tensors import Array, Tensor, dtype


@dataclass(frozen=True, slots=True)
class Signature:
    """Inputs in the order the model takes them."""

    inputs: tuple[TensorMetadata, ...]
    outputs: tuple[TensorMetadata, ...] = ()
    optional: frozenset[str] = frozenset()
    is_guess: bool = False  # datatypes and shapes are defaults, which nothing is held against

    def accept(self, given: Mapping[str, Array]) -> dict[str, Array]:
        """The request's arrays by the model's names; raises UnprocessableInput unless they are what it takes."""
        if self.is_guess and len(given) == len(self.inputs) == 1:
            given = dict(zip((self.inputs[0].name,), given.values(), strict=True))
        self._check_names(given)
        if not self.is_guess:
            for metadata in self.inputs:
                if metadata.name in given:
                    _check(metadata, given[metadata.name])
        _check_one_batch(given)
        return dict(given)

    def _check_names(self, given: Mapping[str, Array]) -> None:
        names = [metadata.name for metadata in self.inputs]
        unknown = [name for name in given if name not in names]
        missing = [name for name in names if name not in given and name not in self.optional]
        if unknown or missing:
            found = f"unknown: {', '.join(unknown)}" if unknown else f"missing: {', '.join(missing)}"
            raise UnprocessableInput(f"The model takes the inputs {', '.join(names)}; {found}.")


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
    sizes = {name: array.shape[0] if array.shape else None for name, array in arrays.items()}
    if None in sizes.values() or len(set(sizes.values())) > 1:
        shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items())
        raise UnprocessableInput(f"The first size of every input is the batch, the same for all; got {shapes}.")


def batch_size(arrays: Mapping[str, Array]) -> int:
    """The leading size of arrays that `accept` let through."""
    return int(next(iter(arrays.values())).shape[0])


def check_outputs(outputs: Mapping[str, Array], batch: int) -> None:
    """Raises InferenceFailed unless every output can be split back into the batch's rows, and these be sent."""
    for name, array in outputs.items():
        if array.shape[:1] != (batch,):
            raise InferenceFailed(
                f'Output "{name}" has the shape {list(array.shape)} for a batch of {batch}; its first size must be '
                "the batch. A model whose results are not one row an instance needs a handler (.mar)."
            )
        try:
            check_lists(name, array.shape)
        except InvalidRequest as error:
            raise InferenceFailed(f"The model's outputs cannot be sent: {error}") from error
