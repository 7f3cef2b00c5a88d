"""How many waiting requests form the next batch, and whether to wait for more."""

from __future__ import annotations

import pytest

from data_plane.batching.gathering import Gathering
from data_plane.batching.limits import BatchLimits


@pytest.mark.parametrize(
    ("instances", "capacity", "limit"), [(3, 1, 3), (100, 1, 32), (5, 2, 3), (4, 4, 1), (3, 0, 3), (0, 1, 0)]
)
def test_a_batch_is_a_workers_share_of_all_requests_up_to_the_limit(instances: int, capacity: int, limit: int) -> None:
    assert Gathering(BatchLimits(max_batch_size=32)).limit(instances, capacity) == limit


def test_with_a_target_for_the_latency_a_batch_is_as_large_as_the_ones_before_allow() -> None:
    gathering = Gathering(BatchLimits(max_latency_s=1.05))
    for size in (8, 16):
        gathering.succeeded(size, size / 10)

    assert gathering.limit(100, 1) == 10


@pytest.mark.parametrize(("model_s", "pause_s"), [(0.005, 0.0005), (0.5, 0.001)])
def test_the_callers_of_a_batch_are_expected_again_for_a_tenth_of_its_duration(model_s: float, pause_s: float) -> None:
    gathering = Gathering(BatchLimits())

    gathering.ended("key", 100.0, model_s=model_s, instances=4, capacity=1)

    assert [gathering.expects_more(instances) for instances in (0, 1, 3, 4)] == [False, True, True, False]
    assert gathering.until == 100.0 + 2 * pause_s
    gathering.arrived(gathering.until)
    assert gathering.until == 100.0 + 2 * pause_s + pause_s
    gathering.arrived(100.0)
    assert gathering.until == 100.0 + 2 * pause_s + pause_s


def test_nobody_is_expected_after_a_request_that_is_never_merged() -> None:
    gathering = Gathering(BatchLimits(), ("alone",))

    gathering.ended("alone", 100.0, model_s=0.5, instances=4, capacity=1)

    assert not gathering.expects_more(1)
