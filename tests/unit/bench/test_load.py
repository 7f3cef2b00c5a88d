"""What `isvc bench` sends and counts, with a server that does as it is told."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from dataclasses import replace

import pytest

from isvc.bench.load import LoadPlan, Responses, load, load_request
from isvc.predict.errors import PredictFailed
from tests.support.ports import free_port
from tests.support.scripted_server import OK, Behaviour, ScriptedServer, Visitor, scripted

PLAN = LoadPlan(connections=3, seconds=30, requests=20, timeout=10)
HOLD_S = 0.3


async def loaded(behaviour: Behaviour, plan: LoadPlan) -> tuple[Responses, ScriptedServer]:
    async with scripted(behaviour) as server:
        sent = load_request(f"http://{server.host}/v1/models/m:predict?x=1", {}, (), b'{"a":1}')
        return await load(sent, plan), server


def answers(*responses: bytes) -> Behaviour:
    """The responses in turn, over and over, for each connection; an empty one closes it."""

    async def behave(visitor: Visitor) -> None:
        for response in itertools.cycle(responses):
            await visitor.request()
            if not response:
                return
            await visitor.say(response)

    return behave


async def silence(visitor: Visitor) -> None:
    await visitor.request()
    await visitor.request()


# --- a closed loop -------------------------------------------------------------------------------------


async def test_all_requests_are_sent_over_so_many_connections_and_counted() -> None:
    seen, server = await loaded(answers(OK), PLAN)

    head = (
        f"POST /v1/models/m:predict?x=1 HTTP/1.1\r\nHost: {server.host}\r\nUser-Agent: isvc-bench\r\n"
        "Content-Type: application/json\r\nAccept: */*\r\nContent-Length: 7\r\n\r\n"
    )
    assert Counter(server.requests) == {f'{head}{{"a":1}}'.encode(): 20}
    assert (server.visits, len(seen.latencies), seen.failed) == (3, 20, 0)
    assert seen.statuses == Counter({200: 20})
    assert 0 < min(seen.latencies) <= max(seen.latencies) <= seen.seconds


async def test_it_ends_when_its_time_is_over() -> None:
    seen, _ = await loaded(answers(OK), replace(PLAN, seconds=0.2, requests=10**6))

    assert seen.seconds >= 0.2
    assert 0 < len(seen.latencies) == seen.statuses[200] < 10**6


async def test_another_status_than_2xx_is_a_failure_with_a_time() -> None:
    seen, _ = await loaded(answers(OK, OK.replace(b"200 OK", b"429 Busy")), replace(PLAN, connections=1))

    assert (seen.statuses, seen.failed, len(seen.latencies)) == (Counter({200: 10, 429: 10}), 10, 20)


async def test_a_connection_that_the_server_closes_is_opened_again() -> None:
    closing = OK.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")

    seen, server = await loaded(answers(OK, closing), replace(PLAN, connections=1))

    assert (server.visits, len(seen.latencies), seen.failed) == (10, 20, 0)


async def test_a_request_whose_connection_ends_is_a_failure() -> None:
    seen, _ = await loaded(answers(OK, b""), replace(PLAN, connections=1))

    assert (len(seen.latencies), seen.errors) == (10, Counter({"the server closed the connection": 10}))


async def test_what_is_not_http_is_a_failure() -> None:
    seen, _ = await loaded(answers(b"SSH-2.0-OpenSSH\r\n"), replace(PLAN, connections=1, requests=2))

    ((reason, count),) = seen.errors.items()
    assert (len(seen.latencies), count) == (0, 2)
    assert reason.startswith("the response is not HTTP (")


async def test_a_request_without_a_response_fails_after_its_time() -> None:
    seen, _ = await loaded(silence, replace(PLAN, connections=2, requests=2, timeout=0.2))

    assert (len(seen.latencies), seen.errors) == (0, Counter({"no response in 0.2 s": 2}))


async def test_requests_that_are_under_way_at_the_end_get_their_time() -> None:
    seen, _ = await loaded(silence, replace(PLAN, connections=2, seconds=0.1, timeout=0.2))

    assert (len(seen.latencies), seen.errors) == (0, Counter({"no response in 0.2 s": 2}))


@pytest.mark.parametrize("rate", [0, 100], ids=["a closed loop", "at a rate"])
async def test_what_was_measured_until_an_interrupt_counts_and_what_was_under_way_does_not(rate: float) -> None:
    asked = asyncio.Event()

    async def first_ones_only(visitor: Visitor) -> None:
        for _ in range(5):
            await visitor.request()
            await visitor.say(OK)
        await visitor.request()
        asked.set()
        await visitor.request()

    async with scripted(first_ones_only) as server:
        sent = load_request(f"http://{server.host}/", {}, (), None)
        running = asyncio.create_task(load(sent, replace(PLAN, connections=1, rate=rate)))
        await asked.wait()
        running.cancel()
        seen = await running

    assert (seen.interrupted, len(seen.latencies), seen.failed) == (True, 5, 0)


async def test_a_server_that_is_not_there_is_an_error() -> None:
    port = free_port()

    with pytest.raises(PredictFailed, match=rf"^cannot connect to 127\.0\.0\.1:{port}: "):
        await load(load_request(f"http://127.0.0.1:{port}", {}, (), None), PLAN)


# --- at a rate -----------------------------------------------------------------------------------------


async def test_at_a_rate_so_many_are_due_in_the_time() -> None:
    seen, server = await loaded(answers(OK), replace(PLAN, seconds=0.5, requests=10**6, rate=100))

    assert (len(seen.latencies), seen.failed) == (50, 0)
    assert server.visits <= 3


async def test_at_a_rate_the_time_of_the_last_request_counts() -> None:
    by_time, _ = await loaded(answers(OK), replace(PLAN, seconds=0.3, rate=0.5))
    by_count, _ = await loaded(answers(OK), replace(PLAN, seconds=30, requests=2, rate=10))

    assert (len(by_time.latencies), len(by_count.latencies)) == (1, 2)
    assert 0.3 <= by_time.seconds < 2
    assert 0.2 <= by_count.seconds < 2


async def test_a_request_that_waits_for_a_slow_server_counts_from_when_it_was_due() -> None:
    async def slow_at_first(visitor: Visitor) -> None:
        await visitor.request()
        await asyncio.sleep(HOLD_S)
        await visitor.say(OK)
        await answers(OK)(visitor)

    seen, _ = await loaded(slow_at_first, replace(PLAN, connections=1, seconds=HOLD_S, rate=100, requests=10**6))

    assert len(seen.latencies) == 30
    assert [number for number, wait in enumerate(seen.latencies) if wait < HOLD_S - number / 100] == []


async def test_requests_that_find_no_connection_by_the_end_are_failures() -> None:
    seen, _ = await loaded(silence, replace(PLAN, connections=1, seconds=0.2, rate=100, timeout=0.5))

    assert (len(seen.latencies), seen.errors.total()) == (0, 20)
    assert (
        seen.errors["not sent: no connection was free"] >= 17
    )  # it can be tried once more, and once more at the very end


async def test_more_connections_are_opened_only_where_requests_wait() -> None:
    release = asyncio.Event()

    async def hold(visitor: Visitor) -> None:
        await visitor.request()
        if visitor.server.visits == 3:
            release.set()
        await release.wait()
        await visitor.say(OK)
        await answers(OK)(visitor)

    held, server = await loaded(hold, replace(PLAN, seconds=0.2, rate=100))

    assert (server.visits, len(held.latencies), held.failed) == (3, 20, 0)
