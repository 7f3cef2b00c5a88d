"""How large a batch may be when it has a latency target."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_plane.batching.limits import BatchDuration


def learnt(fixed: float, per_instance: float, sizes: tuple[int, ...] = (1, 2, 4, 8, 16, 32)) -> BatchDuration:
    duration = BatchDuration()
    for size in sizes:
        duration.observe(size, fixed + per_instance * size)
    return duration


def test_before_anything_ran_a_batch_has_one_instance() -> None:
    assert BatchDuration().largest_within(1.0, 32) == 1


@pytest.mark.parametrize(
    ("fixed", "per_instance", "target", "largest"),
    [
        (0.010, 0.001, 0.0205, 10),
        (0.000, 0.001, 0.0205, 20),
        (0.010, 0.001, 0.005, 1),  # not even one fits; it is served all the same
        (0.010, 0.000, 0.020, 32),  # more cost nothing
        (0.010, 0.001, 1.0, 32),
    ],
)
def test_a_batch_is_as_large_as_its_target_allows(
    fixed: float, per_instance: float, target: float, largest: int
) -> None:
    assert learnt(fixed, per_instance).largest_within(target, 32) == largest


def test_sizes_never_tried_are_come_to_by_doubling() -> None:
    assert learnt(0.0, 0.001, (1,)).largest_within(1.0, 32) == 2
    assert learnt(0.0, 0.001, (1, 2)).largest_within(1.0, 32) == 4


def test_a_model_that_became_slower_gets_smaller_batches() -> None:
    duration = learnt(0.0, 0.001)
    for size in (1, 2, 4, 8, 16, 32) * 12:
        duration.observe(size, 0.010 * size)

    assert duration.largest_within(0.0505, 32) == 5


@given(
    observed=st.lists(st.tuples(st.integers(0, 1000), st.floats(0, 100)), max_size=50),
    target=st.floats(0, 100),
    limit=st.integers(1, 1000),
)
def test_the_size_is_always_between_one_and_the_limit(
    observed: list[tuple[int, float]], target: float, limit: int
) -> None:
    duration = BatchDuration()
    for size, seconds in observed:
        duration.observe(size, seconds)

    assert 1 <= duration.largest_within(target, limit) <= limit
