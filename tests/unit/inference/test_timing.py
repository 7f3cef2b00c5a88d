"""Where the time of a response went, as far as its server says so."""

from __future__ import annotations

import pytest

from isvc.inference.timing import parts_of, stages_of


def test_the_parts_add_up_to_the_whole_time() -> None:
    parts = parts_of(stages_of("queue;dur=0.5, model;dur=7.25"), 10.0)

    assert parts == (("queue", 0.5), ("model", 7.25), ("network", 2.25))


@pytest.mark.parametrize("header", ["", "model;dur=10.001", "a;dur=6, b;dur=6"])
def test_stages_that_are_longer_than_the_response_took_are_not_believed(header: str) -> None:
    assert parts_of(stages_of(header), 10.0) == ()


@pytest.mark.parametrize(
    "header", ["", "queue", "queue;dur=x", "\x1b[31m;dur=1", "a;dur=1e9", ";;;,,,", "a;dur=.", "a;dur=1.2.3"]
)
def test_a_header_that_is_written_otherwise_has_no_stages(header: str) -> None:
    assert stages_of(header) == ()


def test_a_header_has_a_bounded_number_of_stages() -> None:
    assert len(stages_of(",".join(["a;dur=1"] * 1000))) == 32
