"""Progress lines, against a clock of the test's own."""

from __future__ import annotations

import pytest

from model_archive.text import format_size
from storage_initializer.progress import Progress

MIB = 1 << 20


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1.5 * MIB, "1.5 MiB"), (5 << 50, "5120.0 TiB")],
)  # fmt: skip
def test_sizes_are_written_for_people(size: float, text: str) -> None:
    assert format_size(size) == text


def test_a_long_copy_says_so_at_most_once_a_second(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "storage_initializer")
    clock = Clock()
    progress = Progress(files=1, size=1000 * MIB, clock=clock)

    for _ in range(250):
        clock.now += 0.01
        progress.advance(MIB)

    assert caplog.messages == [
        " 10 % of 1000.0 MiB (100.0 MiB/s, 9 s left)",
        " 20 % of 1000.0 MiB (100.0 MiB/s, 8 s left)",
    ]


def test_what_an_earlier_run_brought_counts_for_the_share_but_not_for_the_rate(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "storage_initializer")
    clock = Clock()
    progress = Progress(files=1, size=1000 * MIB, clock=clock)

    progress.resume(500 * MIB)
    clock.now = 1.0
    progress.advance(100 * MIB)

    assert caplog.messages == [" 60 % of 1000.0 MiB (100.0 MiB/s, 4 s left)"]


def test_a_size_that_is_not_known_gives_no_share(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "storage_initializer")
    clock = Clock()
    progress = Progress(files=1, size=0, clock=clock)

    clock.now = 2.0
    progress.advance(MIB)

    assert caplog.messages == ["1.0 MiB (512.0 KiB/s)"]


def test_what_was_there_already_counts_and_has_no_rate() -> None:
    clock = Clock()
    progress = Progress(files=3, size=4 * MIB, clock=clock)

    progress.reuse_rest()
    clock.now = 0.1

    assert progress.summary() == "3 files, 4.0 MiB in 0.1 s"
