"""What the operator reports of the event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from isvc_operator.handlers.operator import ignore_abandoned_watches


async def watch() -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        raise ValueError("the watch is closed while another waits for it")


async def abandon_a_watch() -> None:
    asyncio.get_running_loop().set_exception_handler(ignore_abandoned_watches)
    abandoned = watch()
    await anext(abandoned)
    _kept.append(abandoned)


async def fail_in_a_callback() -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(ignore_abandoned_watches)
    loop.call_soon(int, "no number")
    await asyncio.sleep(0)


_kept: list[Any] = []


def test_a_watch_that_was_abandoned_ends_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    asyncio.run(abandon_a_watch())

    assert caplog.record_tuples == []


def test_any_other_error_of_the_loop_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    asyncio.run(fail_in_a_callback())

    assert [(name, level) for name, level, _ in caplog.record_tuples] == [("asyncio", logging.ERROR)]
