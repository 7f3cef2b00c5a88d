"""Requests of tensors as one batch, and its results cut back. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from data_plane.errors import InferenceFailed

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = Mapping[str, Array]


def key_of(arrays: Arrays) -> Hashable:
    """Requests with equal keys can be merged: same names, types and sizes, but for the number of rows."""
    return tuple((name, array.dtype.str, array.shape[1:]) for name, array in arrays.items())


def rows_of(arrays: Arrays) -> int:
    """How many rows a request has; 1 for one that has none to be cut by."""
    return max((array.shape[0] for array in arrays.values() if array.ndim), default=1)


def can_merge(arrays: Arrays) -> bool:
    """Whether every array has the same number of rows."""
    rows = {array.shape[0] if array.ndim else None for array in arrays.values()}
    return len(rows) == 1 and None not in rows


def merge(requests: Sequence[Arrays]) -> Arrays:
    """The rows of all requests, in order."""
    if len(requests) == 1:
        return requests[0]
    return {name: np.concatenate([request[name] for request in requests]) for name in requests[0]}


def split(results: Arrays, sizes: Sequence[int]) -> list[dict[str, Array]]:
    """Each request's own rows; raises InferenceFailed where the rows are not those that went in."""
    if len(sizes) == 1:
        return [dict(results)]
    total = sum(sizes)
    for name, array in results.items():
        if not array.ndim or array.shape[0] != total:
            raise InferenceFailed(f'{total} rows went to the model; its output "{name}" has shape {list(array.shape)}.')
    ends = np.cumsum(sizes)
    return [
        {name: array[end - size : end] for name, array in results.items()}
        for end, size in zip(ends, sizes, strict=True)
    ]
