"""The storage-initializer logs its progress, and the operator reads it."""

from __future__ import annotations

import logging

import pytest

from isvc.view.progress import progress_in
from isvc.view.values import DownloadProgress
from storage_initializer.lines import LogLineFormatter
from storage_initializer.progress import Progress

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("size", "seen"),
    [
        (100 * MIB, DownloadProgress(percent=40, size="100.0 MiB", rate="20.0 MiB/s", seconds_left=3)),
        (0, DownloadProgress(size="40.0 MiB", rate="20.0 MiB/s")),
    ],
    ids=["of a known size", "of an unknown size"],
)
def test_the_line_of_a_copy_is_read(size: int, seen: DownloadProgress, caplog: pytest.LogCaptureFixture) -> None:
    times = iter([0.0, 2.0])
    with caplog.at_level(logging.INFO, "storage_initializer"):
        Progress(1, size, lambda: next(times)).advance(40 * MIB)

    line = LogLineFormatter().format(caplog.records[-1])

    assert progress_in(line) == seen


@pytest.mark.parametrize("line", ["", "copied model.pt (1.2 GiB)", "% of 3", "9" * 100_000])
def test_other_lines_tell_no_progress(line: str) -> None:
    assert progress_in(line) is None
