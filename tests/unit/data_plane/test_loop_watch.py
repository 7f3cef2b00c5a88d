"""What holds the event loop is logged while it does, and nothing is left of the watch when its server has ended."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time

import pytest

from data_plane.model_server.life import open_port
from data_plane.model_server.serving import serve
from data_plane.server.loop_watch import watched_loop
from data_plane.server.metrics import ServerMetrics
from tests.support.fake_models import FakeModel, serving
from tests.support.listeners import listening_on
from tests.support.waiting import eventually


async def test_what_holds_the_event_loop_is_logged_by_its_line(caplog: pytest.LogCaptureFixture) -> None:
    def hold_the_loop() -> None:
        deadline = time.monotonic() + 30
        while not records and time.monotonic() < deadline:
            pass

    caplog.set_level(logging.WARNING)
    records = caplog.records
    with watched_loop(threshold_s=0.02, advice="make it sync"):
        hold_the_loop()

    (line,) = [record.getMessage() for record in records]
    place = rf"{re.escape(__file__)}:\d+ \(hold_the_loop\)"
    assert re.fullmatch(rf"no request gets on for \d+\.\d s: the event loop is held at {place}; make it sync", line)


async def test_a_loop_that_waits_for_a_processor_is_no_ones_fault(caplog: pytest.LogCaptureFixture) -> None:
    """It stands in its own code, as here, where what it waits for does not come."""
    loop = asyncio.get_running_loop()
    loop_selects = loop._selector.select  # type: ignore[attr-defined]
    caplog.set_level(logging.DEBUG, "data_plane")

    def wait(*_: object) -> list[object]:
        loop._selector.select = loop_selects  # type: ignore[attr-defined]
        return list(loop_selects(0.5))

    with watched_loop(threshold_s=0.02):
        loop._selector.select = wait  # type: ignore[attr-defined]
        await asyncio.sleep(0)

    levels = [record.levelname for record in caplog.records if "no request gets on" in record.getMessage()]
    assert levels == ["DEBUG"]


async def test_what_holds_a_server_that_is_not_ready_is_for_debug(caplog: pytest.LogCaptureFixture) -> None:
    """No request waits for it: it loads its models, and imports what they need."""
    caplog.set_level(logging.DEBUG, "data_plane")
    deadline = time.monotonic() + 30
    with watched_loop(threshold_s=0.02, is_ready=lambda: False):
        while not caplog.records and time.monotonic() < deadline:
            pass

    levels = [record.levelname for record in caplog.records if "no request gets on" in record.getMessage()]
    assert levels == ["DEBUG"]


async def test_the_lines_of_other_threads_are_logged_too(caplog: pytest.LogCaptureFixture) -> None:
    """One of them may be what keeps the interpreter. They and the stack are for DEBUG."""
    release = threading.Event()
    other = threading.Thread(target=release.wait, args=(30,), name="an engine")
    other.start()
    caplog.set_level(logging.DEBUG, "data_plane")
    with watched_loop(threshold_s=0.02):
        deadline = time.monotonic() + 30
        while "an engine at" not in caplog.text and time.monotonic() < deadline:
            pass
    release.set()
    other.join()

    assert "an engine at" in caplog.text


async def test_a_model_server_is_watched() -> None:
    def is_watched() -> bool:
        return "loop-watch" in {thread.name for thread in threading.enumerate()}

    async def end_when_it_is_watched() -> None:
        await asyncio.to_thread(eventually, is_watched, "the loop is watched")
        raise EOFError

    with open_port("127.0.0.1", 0) as listener, pytest.raises(EOFError):
        await asyncio.wait_for(
            serve(
                listening_on(listener), serving(FakeModel()), ServerMetrics(), must_not_end=[end_when_it_is_watched()]
            ),
            20,
        )
