"""BF16, for which numpy has no type: the upper half of a float32 on the wire, a float32 in arrays. Pure.

The array class `Numbers` marks an array as BF16 where there is no tensor with a datatype.

Triton's clients represent BF16 in the same way. ml_dtypes has a type, but neither torch nor JSON accepts its arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

WIRE = np.dtype("<u2")
VALUE = np.dtype("<f4")
MAX = 3.3895314e38


class Numbers(Array):
    """An array of float32 whose values can all be represented in BF16."""


_LOWER_HALF = np.uint32(0xFFFF)
_QUIET = np.uint32(0x40)


def widen(halves: Array) -> Array:
    """Convert numbers from the wire to float32, without loss."""
    return (halves.astype(np.uint32) << np.uint32(16)).view(VALUE)


def narrow(numbers: Array) -> Array:
    """Convert float32 to the wire, rounded to nearest, ties to even; the inverse of `widen` for its results."""
    bits = numbers.view(np.uint32)
    upper = bits >> np.uint32(16)
    rounded = (bits + np.uint32(0x7FFF) + (upper & np.uint32(1))) >> np.uint32(16)
    # A truncated NaN must not become infinity.
    cut_nan = np.isnan(numbers) & ((bits & _LOWER_HALF) != 0)
    return np.where(cut_nan, upper | _QUIET, rounded).astype(WIRE)


def round_(numbers: Array) -> Array:
    """Round to the nearest BF16 values; raises OverflowError for a number that is too large."""
    rounded = widen(narrow(numbers))
    if (np.isinf(rounded) & ~np.isinf(numbers)).any():
        raise OverflowError
    return rounded
