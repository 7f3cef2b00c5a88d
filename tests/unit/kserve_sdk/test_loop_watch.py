"""What of the user's code holds the event loop is logged while it does."""

from __future__ import annotations

import asyncio
import logging
import re
import time

import pytest

from transformer_sdk.kserve.serving.loop_watch import watched_loop


def hold_the_loop(caplog: pytest.LogCaptureFixture, seconds: float) -> None:
    records, deadline = caplog.records, time.monotonic() + seconds
    while not records and time.monotonic() < deadline:
        pass


async def test_what_holds_the_event_loop_is_logged_by_its_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    with watched_loop(lambda: True, threshold_s=0.02):
        hold_the_loop(caplog, 30)

    (line,) = [record.getMessage() for record in caplog.records]
    assert re.fullmatch(
        rf"no request gets on for \d+\.\d s: the event loop is held at {re.escape(__file__)}:\d+ \(hold_the_loop\); "
        "if an async hook blocks or computes, make it sync, so that it runs in a thread",
        line,
    )


async def test_a_loop_that_waits_for_a_processor_is_no_ones_fault(caplog: pytest.LogCaptureFixture) -> None:
    """It stands in its own code, as here, where what it waits for does not come."""
    caplog.set_level(logging.WARNING)
    with watched_loop(lambda: True, threshold_s=0.02):
        asyncio.get_running_loop().call_soon(time.sleep, 0.5)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    assert caplog.records == []


async def test_what_holds_a_server_that_is_not_ready_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """No request waits for it: it loads its models, and imports what they need."""
    caplog.set_level(logging.WARNING)
    with watched_loop(lambda: False, threshold_s=0.02):
        hold_the_loop(caplog, 0.5)

    assert caplog.records == []
