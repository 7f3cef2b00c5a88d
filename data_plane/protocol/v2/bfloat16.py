"""BF16, which numpy has no type for: on the wire the upper half of a float32, everywhere else float32. Pure.

An array of `Numbers` is one whose datatype this is, where no tensor says so.

So do Triton's clients. ml_dtypes has the type, but neither torch nor JSON takes arrays of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

WIRE = np.dtype("<u2")
VALUE = np.dtype("<f4")
MAX = 3.3895314e38


class Numbers(Array):
    """An array of float32, each of which is a number that BF16 has."""


_LOWER_HALF = np.uint32(0xFFFF)
_QUIET = np.uint32(0x40)


def widen(halves: Array) -> Array:
    """The numbers of the wire, each exactly."""
    return (halves.astype(np.uint32) << np.uint32(16)).view(VALUE)


def narrow(numbers: Array) -> Array:
    """Numbers as on the wire: to the nearest, of two as near to the even one. What was widened comes back as it was."""
    bits = numbers.view(np.uint32)
    upper = bits >> np.uint32(16)
    rounded = (bits + np.uint32(0x7FFF) + (upper & np.uint32(1))) >> np.uint32(16)
    # A NaN that is cut must not become infinity.
    cut_nan = np.isnan(numbers) & ((bits & _LOWER_HALF) != 0)
    return np.where(cut_nan, upper | _QUIET, rounded).astype(WIRE)


def round_(numbers: Array) -> Array:
    """The nearest numbers that BF16 has; raises OverflowError for one that is too large."""
    rounded = widen(narrow(numbers))
    if (np.isinf(rounded) & ~np.isinf(numbers)).any():
        raise OverflowError
    return rounded
