"""Datatypes of the v2 protocol and numpy's. Needs numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from data_plane.errors import InvalidRequest
from data_plane.protocol.v2 import tensors


def to_np_dtype(dtype: str) -> np.dtype[Any] | None:
    """numpy's type for a datatype's elements; None for what is not a datatype."""
    if dtype == "BYTES":
        return np.dtype(object)
    try:
        return tensors.dtype("", dtype)
    except InvalidRequest:
        return None


def from_np_dtype(np_dtype: Any) -> str | None:
    """The datatype for arrays of numpy's type, which is BYTES for dates; None where there is none."""
    if np.issubdtype(np_dtype, np.datetime64):
        return "BYTES"
    try:
        return tensors.Tensor.from_numpy("", np.empty(0, np_dtype)).datatype
    except TypeError:
        return None
