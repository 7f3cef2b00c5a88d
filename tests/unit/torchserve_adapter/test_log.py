"""TorchServe's log: which lines count as a death, whatever a handler prints, and lines without an end."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tests.unit.torchserve_adapter.watching import DIED, LATE
from torchserve_adapter.launch import Launch
from torchserve_adapter.limits import MAX_LOG_LINE
from torchserve_adapter.process import TorchServe, WorkerDeaths, lines_of

_LOST = "2026-01-01 00:00:00,000 INFO    torchserve [W-9000-bert_1.0] Auto recovery start timestamp: 1"
_PRINTED = "2026-01-01 00:00:00,000 INFO    torchserve [W-9000-bert_1.0-stdout] "


@pytest.mark.parametrize(
    ("lines", "seen"),
    [
        (DIED, (1, False, False)),
        (_LOST, (0, True, False)),
        (f"{LATE}\n{DIED}", (1, False, True)),
        (f"{LATE}\n{_LOST}", (0, True, True)),
        (f"{LATE}\n{DIED}\n{DIED}", (2, False, False)),
        (f"{LATE.replace('9000', '9001')}\n{DIED}", (1, False, False)),
        (_PRINTED + DIED, (0, False, False)),
        (_PRINTED + _LOST, (0, False, False)),
        (f"{_PRINTED}{LATE}\n{DIED}", (1, False, False)),
        (_PRINTED + "Retry worker: 9000 in 1 seconds.", (0, False, False)),
        ("[W-9000-bert_1.0] Retry worker: 9000 in 1 seconds.", (0, False, False)),
        (DIED.replace("Retry", "No Retry"), (0, False, False)),
    ],
)
async def test_only_a_line_of_the_workers_own_thread_counts(lines: str, seen: tuple[int, bool, bool]) -> None:
    deaths = WorkerDeaths()
    for line in lines.splitlines():
        deaths.feed(line)

    found = deaths.count("bert", "1.0"), deaths.has_lost("bert", "1.0"), deaths.was_late("bert", "1.0")
    assert found == seen


async def test_a_line_is_cut_and_what_follows_it_is_read() -> None:
    stream = asyncio.StreamReader()
    for text in (b"a\n", b"x" * (5 * MAX_LOG_LINE), b"y\nb", b"c\n\nlast"):
        stream.feed_data(text)
    stream.feed_eof()

    long = b"x" * MAX_LOG_LINE + " …".encode()
    assert [line async for line in lines_of(stream)] == [b"a", long, b"bc", b"", b"last"]


@pytest.mark.process
async def test_a_log_that_cannot_be_passed_on_ends_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed:
        def write(self, _: str) -> None:
            raise BrokenPipeError("nobody reads the log")

    command = (sys.executable, "-c", "import time; print('x', flush=True); time.sleep(600)")
    monkeypatch.setattr(sys, "platform", "darwin")  # on Linux it would take the orphans of all other tests
    monkeypatch.setattr(sys, "stdout", Closed())

    with pytest.raises(BrokenPipeError, match="nobody reads the log"):
        async with TorchServe(Launch(command, {}, tmp_path)) as torchserve:
            await torchserve.died()
