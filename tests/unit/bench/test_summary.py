"""Percentiles, the histogram, and the JSON that is printed."""

from __future__ import annotations

from array import array
from collections import Counter

import pytest

from isvc.bench.load import LoadPlan, Responses
from isvc.bench.summary import document, histogram, percentile

PLAN = LoadPlan(connections=4, seconds=10, requests=1000, timeout=30)


@pytest.mark.parametrize(("share", "value"), [(0, 1), (50, 5), (90, 9), (90.1, 10), (99, 10), (100, 10)])
def test_a_percentile_is_a_value_that_was_seen(share: float, value: int) -> None:
    assert percentile([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], share) == value


def test_a_histogram_has_every_value_once_and_no_empty_ends() -> None:
    rows = histogram([0.9, 1.2, 1.2, 6.0, 21.0])

    assert [(round(bound, 6), count) for bound, count in rows] == [
        (1.0, 1), (1.5, 2), (2.2, 0), (3.3, 0), (4.7, 0), (6.8, 1), (10.0, 0), (15.0, 0), (22.0, 1),
    ]  # fmt: skip


def test_requests_that_were_never_sent_have_failed_and_lateness_is_in_milliseconds() -> None:
    seen = Responses(late=array("d", [0.0001, 0.0002]), errors=Counter({"no response in 30 s": 1}), unsent=2)

    found = document("http://h/", PLAN, seen)

    assert (found["failed"], found["unsent"], found["client"]["lateP99Ms"]) == (3, 2, 0.2)


def test_the_document_of_nothing_is_whole() -> None:
    empty = document("http://h/", PLAN, Responses())

    assert (empty["responses"], empty["histogram"], empty["responsesPerSecond"]) == (0, [], 0.0)
