"""Merge requests of tensors into one batch, and split its results. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from data_plane.errors import InferenceFailed

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = Mapping[str, Array]


def key_of(arrays: Arrays) -> Hashable:
    """Return a key; requests with equal keys have the same names, types and sizes, except for the number of rows."""
    return tuple((name, array.dtype.str, array.shape[1:]) for name, array in arrays.items())


def rows_of(arrays: Arrays) -> int:
    """Return the number of rows of a request; 1 if no array has a first dimension."""
    return max((array.shape[0] for array in arrays.values() if array.ndim), default=1)


def can_merge(arrays: Arrays) -> bool:
    rows = {array.shape[0] if array.ndim else None for array in arrays.values()}
    return len(rows) == 1 and None not in rows


def merge(requests: Sequence[Arrays]) -> Arrays:
    if len(requests) == 1:
        return requests[0]
    return {name: np.concatenate([request[name] for request in requests]) for name in requests[0]}


def split(results: Arrays, sizes: Sequence[int]) -> list[dict[str, Array]]:
    """Return each request's own rows; raises InferenceFailed if the number of rows has changed."""
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
