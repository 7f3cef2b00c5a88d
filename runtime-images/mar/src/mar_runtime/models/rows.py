"""Whether requests of a model may share a run, as its outputs show. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from data_plane.batching.merge import Arrays
from data_plane.protocol.v2.requests import TensorMetadata

_KINDS = 1024  # of requests that are remembered, as clients choose their sizes


def may_merge(inputs: Sequence[TensorMetadata], outputs: Sequence[TensorMetadata]) -> bool:
    """Whether all inputs and outputs have a free first dimension, as far as they are declared.

    Nothing tells a scalar output from one of unknown dimensions, so the model's results have to show that.
    """
    sizes = {tensor.shape[:1] for tensor in outputs} - {()} | {tensor.shape[:1] for tensor in inputs} - {()}
    return sizes == {(-1,)}


def has_rows(outputs: Arrays, rows: int) -> bool:
    """Whether the first size of every output is the number of rows."""
    return all(array.shape[:1] == (rows,) for array in outputs.values())


@dataclass(slots=True)
class _Shown:
    """What one kind of request has shown: the rows of its first run, and the other sizes of the outputs."""

    rows: int
    sizes: dict[str, tuple[int, ...]]
    is_proven: bool = False  # another number of rows gave as many rows of the same sizes
    is_whole: bool = False
    is_varying: bool = False


class ShownRows:
    """What the outputs have shown for each kind of request (`merge.key_of`). It contains those that must not be merged.

    An output may have a row for each row of the inputs, or be one thing: a state of two layers, all boxes of an image.
    Both have two rows after a request with two, so it takes two different numbers of rows to tell them apart.
    """

    def __init__(self) -> None:
        self._shown: dict[Hashable, _Shown] = {}

    def __contains__(self, key: Hashable) -> bool:
        shown = self._shown.get(key)
        return shown is not None and (shown.is_whole or shown.is_varying)

    def are_whole(self, key: Hashable) -> bool:
        """Whether a run had outputs that are not one row for each row of the inputs."""
        shown = self._shown.get(key)
        return shown is not None and shown.is_whole

    def are_proven(self, key: Hashable) -> bool:
        """Whether every output has a row for each row of the inputs, whatever their number."""
        shown = self._shown.get(key)
        return shown is not None and shown.is_proven and key not in self

    def observe(self, key: Hashable, rows: int, outputs: Arrays) -> None:
        """Learn from a run."""
        sizes = {name: array.shape[1:] for name, array in outputs.items()}
        shown = self._shown.get(key)
        if shown is None:
            if len(self._shown) >= _KINDS:
                del self._shown[next(iter(self._shown))]
            shown = self._shown[key] = _Shown(rows, sizes)
        shown.is_whole = shown.is_whole or not has_rows(outputs, rows)
        shown.is_varying = shown.is_varying or shown.sizes != sizes
        shown.is_proven = shown.is_proven or shown.rows != rows
