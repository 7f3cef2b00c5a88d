"""BF16 beside ml_dtypes, which has it as a type of numpy's."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from hypothesis import given
from hypothesis.extra import numpy as hnp

from data_plane.protocol.v2.bfloat16 import MAX, VALUE, WIRE, Array, narrow, widen

EVERY = np.arange(2**16).astype(WIRE)
THEIRS = EVERY.view(ml_dtypes.bfloat16)


def test_all_of_its_numbers_are_widened_as_they_are() -> None:
    np.testing.assert_array_equal(widen(EVERY), THEIRS.astype(np.float32))


def test_what_was_widened_comes_back_to_the_bit() -> None:
    assert narrow(widen(EVERY)).tobytes() == EVERY.tobytes()


@given(hnp.arrays(VALUE, 32))
def test_numbers_are_rounded_to_the_nearest(numbers: Array) -> None:
    np.testing.assert_array_equal(widen(narrow(numbers)), numbers.astype(ml_dtypes.bfloat16).astype(np.float32))


def test_a_nan_stays_one() -> None:
    every_bit = np.array([0x7F800001, 0xFF800001, 0x7FFFFFFF, 0xFFFFFFFF], np.uint32).view(VALUE)
    assert np.isnan(widen(narrow(every_bit))).all()


def test_the_largest_number_is_the_largest() -> None:
    assert np.float32(MAX) == ml_dtypes.finfo(ml_dtypes.bfloat16).max.astype(np.float32)
