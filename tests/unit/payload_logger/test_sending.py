"""Payloads on their way to sinks that take them, refuse them, or break."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Mapping

import pytest

from data_plane.limits import LOG_ATTEMPTS, LOG_SENDERS
from data_plane.payload_logger import sender
from data_plane.payload_logger.settings import Mode
from tests.support.event_sinks import event_of, floods, resets, responds, told
from tests.support.ports import free_port
from tests.support.scripted_server import Behaviour, never
from tests.support.waiting import eventually
from tests.unit.payload_logger.loggers import Counts, a_logger, ask, delivered, dropped, failed, logging_to

LONG_S = 20.0


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "_FIRST_PAUSE_S", 0.0)


async def settled(behaviour: Behaviour, requests: int = 1) -> tuple[Counts, int]:
    """What becomes of requests, and how many attempts the sink saw; none is cut short by the end."""
    async with logging_to(behaviour) as (logger, sink):
        for number in range(requests):
            ask(logger, str(number))
        await logger._queue.waiting.join()
        return logger.counts, len(sink.requests)


async def test_both_payloads_arrive_as_events() -> None:
    async with logging_to(responds(202), mode=Mode.ALL) as (logger, sink):
        ask(logger, "42")
        await logger.close(LONG_S)

        assert logger.counts == delivered(request=1, response=1)
        assert told(sink.requests) == [("request", "42", b"question"), ("response", "42", b"answer")]
        assert sink.requests[0].startswith(b"POST /in?a=b HTTP/1.1\r\n")
        assert event_of(sink.requests[0])["datacontenttype"] == "application/json"


@pytest.mark.parametrize(
    ("statuses", "counts", "attempts"),
    [
        ((200,), delivered(request=1), 1),
        ((503, 200), delivered(request=1), 2),
        ((429, 500, 204), delivered(request=1), 3),
        ((500,), failed("status_5xx", request=1), LOG_ATTEMPTS),
        ((429,), failed("status_4xx", request=1), LOG_ATTEMPTS),
        ((404,), failed("status_4xx", request=1), 1),
        ((302,), failed("status_3xx", request=1), 1),
    ],
    ids=str,
)
async def test_a_payload_is_sent_again_while_the_status_may_change(
    statuses: tuple[int, ...], counts: Counts, attempts: int
) -> None:
    assert await settled(responds(*statuses)) == (counts, attempts)


BROKEN: Mapping[str, Behaviour] = {"resets": resets, "floods": floods}


@pytest.mark.parametrize("behaviour", BROKEN.values(), ids=BROKEN)
async def test_a_connection_that_breaks_is_replaced_a_few_times(behaviour: Behaviour) -> None:
    assert await settled(behaviour) == (failed("broken", request=1), LOG_ATTEMPTS)


async def test_a_sink_that_does_not_respond_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "LOG_TIMEOUT", 1.0)

    assert await settled(never) == (failed("timeout", request=1), 1)


async def test_payloads_to_nobody_are_counted() -> None:
    logger = a_logger(f"http://127.0.0.1:{free_port()}")
    logger.start()
    for _ in range(3):
        ask(logger)
    await logger._queue.waiting.join()
    await logger.close(0)

    assert logger.counts == failed("unreachable", request=3, response=3)


async def test_few_payloads_are_sent_at_a_time() -> None:
    async with logging_to(never) as (logger, sink):
        for number in range(3 * LOG_SENDERS):
            ask(logger, str(number))
        await asyncio.to_thread(eventually, lambda: sink.visits == LOG_SENDERS, "all senders wait for the sink")
        await logger.close(0)

        assert sink.visits == LOG_SENDERS
        assert logger.counts == dropped("stopped", request=3 * LOG_SENDERS)


async def test_at_the_end_each_payload_is_sent_once_more_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "_FIRST_PAUSE_S", 3600.0)
    async with logging_to(responds(500)) as (logger, sink):
        for number in range(2 * LOG_SENDERS):
            ask(logger, str(number))
        await sink.asked.wait()
        await logger.close(LONG_S)

        assert logger.counts == failed("status_5xx", request=2 * LOG_SENDERS)


async def test_losses_are_logged_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    async with logging_to(responds(404)) as (logger, sink):
        for number in range(20):
            ask(logger, str(number))
        await logger._queue.waiting.join()
        assert caplog.messages == [
            f"payloads were not delivered to http://{sink.host}/in: status_4xx 1; its last problem: it responded "
            "with 404"
        ]
        await logger.close(LONG_S)

    assert [text.partition(": ")[2] for text in caplog.messages[1:]] == [
        "status_4xx 19; its last problem: it responded with 404"
    ]


async def test_nothing_is_held_once_all_is_sent() -> None:
    async with logging_to(responds(200), mode=Mode.ALL) as (logger, _):
        for number in range(100):
            ask(logger, str(number))
        assert logger.counts.bytes > 0
        await logger.close(LONG_S)

        assert logger.counts == dataclasses.replace(delivered(request=100, response=100), events=0, bytes=0)
