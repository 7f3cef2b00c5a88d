"""How many connections a server has, and how long it waits for their clients; its clock is the test's."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import pytest
import uvloop

from data_plane.errors import NotFound
from data_plane.limits import (
    HEAD_TIMEOUT,
    KEEP_ALIVE,
    MAX_DISCARDED,
    MAX_PIPELINED,
    MAX_SURPLUS_CONNECTIONS,
    MIN_RATE,
    TRANSFER_TIMEOUT,
)
from data_plane.messages import Request, Response, json_response
from data_plane.server.app import App
from data_plane.server.budget import Held
from data_plane.server.certificate import Certificate, Tls
from data_plane.server.connection import ServerConnection
from data_plane.server.metrics import ServerMetrics
from data_plane.server.routing import Route, Router
from data_plane.server.run import HttpServer, listen
from tests.support.raw_client import Visitor
from tests.support.waiting import eventually

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
BODY = b"[1]"
POST = b"POST /size HTTP/1.1\r\nContent-Length: %d\r\n\r\n"
WHOLE = POST % len(BODY) + BODY
GET = b"GET /size HTTP/1.1\r\n\r\n"
LARGE = 40_000_000  # bytes: more than the sockets of both sides take


async def size(request: Request) -> Response:
    return json_response(len(request.body))


async def large(_: Request) -> Response:
    return Response(b"x" * LARGE)


def no_model(_: object) -> None:
    raise NotFound("no such model")


@dataclass
class Served:
    """A server, and the time that passes for it."""

    server: HttpServer
    loop: asyncio.AbstractEventLoop
    port: int
    now: float

    def visit(self, *segments: bytes) -> Visitor:
        return Visitor(socket.create_connection(("127.0.0.1", self.port), timeout=20)).send(*segments)

    def let_pass(self, seconds: float = 0) -> None:
        """All that was sent is in the server; then so many seconds are over."""
        with self.visit(GET) as visitor:
            visitor.answer()
        self.now += seconds
        looked = threading.Event()
        self.loop.call_soon_threadsafe(lambda: (self.server.check_timeouts(self.now), looked.set()))
        assert looked.wait(20)

    def drain(self) -> None:
        """The server has begun to end: it takes no connection any more."""
        self.loop.call_soon_threadsafe(self.server.drain)
        eventually(lambda: not self.server.servers[0].is_serving(), "the server drains")


@contextlib.contextmanager
def serving(
    max_connections: int,
    kind: str = "uvloop",
    certified: Tls | None = None,
    routes: Sequence[Route] = (),
    *,
    drain_idle_s: float = 0.0,
) -> Iterator[Served]:
    loop, listener = LOOPS[kind](), listen("127.0.0.1", 0)
    routes = [*routes, Route("GET", "/size", size), Route("POST", "/size", size), Route("GET", "/large", large)]
    routes.append(Route("POST", "/none", size, no_model))

    async def waiting(request: Request) -> Response:
        """For as long as its client is there, and 100 turns at most; tells the most that has come behind it."""
        behind = 0
        for _ in range(100):
            assert not request.is_gone()
            await asyncio.sleep(0.001)
            behind = max(len(cast("ServerConnection", one).cycle.body) for one in server.server_state.connections)
        return json_response(behind)

    routes.append(Route("GET", "/waiting", waiting))
    app = App(Router(routes), ServerMetrics(), 1_000_000)
    server = HttpServer(
        app,
        listener,
        grace_period_s=60,
        certificate=Certificate(certified) if certified else None,
        max_connections=max_connections,
        drain_idle_s=drain_idle_s,
    )
    thread = threading.Thread(target=loop.run_until_complete, args=(server.run_until_drained(),))
    thread.start()
    try:
        yield Served(server, loop, listener.getsockname()[1], loop.time())
    finally:
        loop.call_soon_threadsafe(server.drain)
        thread.join()
        loop.close()


@pytest.fixture(scope="module", params=LOOPS)
def running(request: pytest.FixtureRequest) -> Iterator[Served]:
    with serving(1000, request.param) as here:
        yield here


@pytest.fixture
def served(running: Served) -> Served:
    return dataclasses.replace(running, now=running.loop.time())


# --- clients who disconnect --------------------------------------------------------------------------


def test_an_endpoint_learns_that_its_client_has_disconnected() -> None:
    noticed = threading.Event()

    async def until_gone(request: Request) -> Response:
        while not request.is_gone():  # noqa: ASYNC110 - it can only be polled
            await asyncio.sleep(0.001)
        noticed.set()
        return json_response("read by nobody")

    with serving(5, routes=[Route("POST", "/until-gone", until_gone)]) as here:
        with here.visit(b"POST /until-gone HTTP/1.1\r\ncontent-length: 2\r\n\r\n[]"):
            pass
        assert noticed.wait(20)


def test_a_response_does_not_wait_for_the_clients_acknowledgement(served: Served) -> None:
    with served.visit(GET) as client:
        client.answer()
        accepted = [one.transport.get_extra_info("socket") for one in served.server.server_state.connections]

        assert [bool(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)) for one in accepted] == [True]


# --- memory ------------------------------------------------------------------------------------------


def test_a_request_leaves_nothing_to_the_garbage_collector(served: Served) -> None:
    requests = 20
    with served.visit(GET) as visitor:
        visitor.answer()
        gc.collect()
        gc.disable()
        try:
            for _ in range(requests):
                visitor.send(GET).answer()
            assert gc.collect() < requests
        finally:
            gc.enable()


# --- slow clients ------------------------------------------------------------------------------------


def assert_given_up(visitor: Visitor, words: str) -> None:
    status, headers, document = visitor.answer()
    assert (status, headers["connection"], document["component"]) == (408, "close", "server")
    assert document["error"] == words
    assert visitor.is_closed()


@pytest.mark.parametrize("sent", [b"POST /si", b"\r\n", WHOLE + b"POST /si"], ids=["first", "empty lines", "second"])
def test_a_head_that_does_not_come_to_its_end_is_given_up(served: Served, sent: bytes) -> None:
    with served.visit(sent) as visitor:
        if sent.startswith(WHOLE):
            assert visitor.echoed() == len(BODY)
        for _ in range(3):  # one byte after the other does not help
            served.let_pass(HEAD_TIMEOUT / 3)
            visitor.send(sent[-1:])
        served.let_pass(HEAD_TIMEOUT / 3 + 1)

        assert_given_up(visitor, f"The request's head did not come within {HEAD_TIMEOUT} s.")


def test_a_body_that_does_not_come_to_its_end_is_given_up(served: Served) -> None:
    with served.visit(POST % 1000) as visitor:
        for _ in range(3):
            served.let_pass(TRANSFER_TIMEOUT / 3)
            visitor.send(b"1")
        served.let_pass(TRANSFER_TIMEOUT / 3 + 1)

        words = f"Of the request's body 3 bytes came within {TRANSFER_TIMEOUT} s; send it without a pause."
        assert_given_up(visitor, words)


def test_one_that_comes_at_the_least_rate_is_waited_for(served: Served) -> None:
    pieces = TRANSFER_TIMEOUT * 3 // 10
    with served.visit(POST % (pieces * MIN_RATE * 10)) as visitor:
        served.let_pass()
        for _ in range(pieces):
            visitor.send(b"1" * MIN_RATE * 10)
            served.let_pass(10)

        assert visitor.echoed() == pieces * MIN_RATE * 10


def test_a_body_that_nobody_wants_is_waited_for_no_longer(served: Served) -> None:
    with served.visit(b"POST /none HTTP/1.1\r\nContent-Length: 1000\r\n\r\n1") as visitor:
        assert visitor.answer()[0] == 404
        served.let_pass()
        served.let_pass(TRANSFER_TIMEOUT + 1)

        assert visitor.is_closed()


def test_a_client_that_does_not_read_its_answer_is_given_up(served: Served) -> None:
    with served.visit(b"GET /large HTTP/1.1\r\n\r\n") as visitor:
        served.let_pass()
        served.let_pass(TRANSFER_TIMEOUT + 1)  # at the least rate it would take longer
        assert len(visitor.connection.recv(1000)) == 1000

        served.let_pass(LARGE / MIN_RATE)
        assert sum(map(len, iter(lambda: visitor.connection.recv(1 << 20), b""))) < LARGE / 2


def test_an_answer_that_is_not_read_counts_at_once_until_it_is(served: Served) -> None:
    budget = cast("App", served.server.config.app).budget
    budget.peak = 0
    with served.visit(b"GET /large HTTP/1.1\r\n\r\n") as visitor:
        with served.visit(GET) as other:
            other.answer()
        assert budget.peak > LARGE / 2

        while len(visitor.unread) < LARGE:
            visitor.unread += visitor.connection.recv(1 << 20)
    served.let_pass()
    budget.peak = 0
    budget.count_unsent(0)
    assert budget.peak == 0


def test_heads_that_have_not_arrived_completely_count_and_may_find_no_room(served: Served) -> None:
    budget = cast("App", served.server.config.app).budget
    begun = b"POST /size HTTP/1.1\r\nX: " + b"a" * 10_000
    with served.visit(begun) as visitor:
        served.let_pass()
        assert budget.held == len(begun)
        assert visitor.send(b"\r\nContent-Length: 3\r\n\r\n" + BODY).echoed() == len(BODY)
    served.let_pass()
    assert budget.held == 0

    others = Held(budget)
    others.add(budget.limit)
    with served.visit(begun) as refused:
        status, headers, _ = refused.answer()
        assert (status, headers["retry-after"], headers["connection"]) == (503, "1", "close")
        assert refused.is_closed()
    others.release()
    assert budget.held == 0


def test_an_idle_connection_is_kept_for_long(served: Served) -> None:
    with served.visit() as fresh, served.visit(WHOLE) as used:
        assert used.echoed() == len(BODY)
        served.let_pass(KEEP_ALIVE - 600)
        assert used.send(WHOLE).echoed() == len(BODY)
        served.let_pass(KEEP_ALIVE)

        assert (fresh.is_closed(), used.is_closed()) == (True, True)


# --- answers before a body is there ------------------------------------------------------------------

EARLY = b"POST /none HTTP/1.1\r\nContent-Length: %d\r\n%b\r\n"


def test_the_rest_of_a_body_that_nobody_wants_is_thrown_away(served: Served) -> None:
    with served.visit(EARLY % (100_000, b"") + b"1") as visitor:
        assert visitor.answer()[0] == 404
        assert visitor.send(b"1" * 99_999 + WHOLE).echoed() == len(BODY)


def test_a_client_that_wants_to_be_closed_reads_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("data_plane.server.app.LINGER", 0.5)
    with (
        serving(5) as here,
        here.visit(EARLY % (10_000_000, b"Connection: x, close\r\n") + b"1", *[b"1" * 100_000] * 50) as visitor,
    ):
        assert (visitor.answer()[0], visitor.is_closed()) == (404, True)


def test_not_more_than_so_much_is_thrown_away(served: Served) -> None:
    with served.visit(EARLY % (2 * MAX_DISCARDED, b"") + b"1") as visitor:
        assert visitor.answer()[0] == 404
        for _ in range(MAX_DISCARDED >> 20):
            visitor.send(b"1" * (1 << 20))

        assert visitor.is_closed()


# --- how many ----------------------------------------------------------------------------------------


def test_the_longest_idle_makes_room() -> None:
    with serving(3) as here, contextlib.ExitStack() as open_ones:
        first, second, third = (open_ones.enter_context(here.visit(WHOLE)) for _ in range(3))
        assert [one.echoed() for one in (first, second, third)] == [len(BODY)] * 3
        assert first.send(WHOLE).echoed() == len(BODY)

        with here.visit(WHOLE) as fourth:
            assert fourth.echoed() == len(BODY)
            assert second.is_closed()
        assert [one.send(WHOLE).echoed() for one in (first, third)] == [len(BODY)] * 2


def test_where_none_is_idle_a_request_is_refused_and_a_probe_answered() -> None:
    with serving(2) as here, here.visit(POST % 9), here.visit(POST % 9) as busy:
        with here.visit(WHOLE) as refused:
            status, headers, document = refused.answer()
            assert (status, headers["retry-after"], headers["connection"]) == (503, "1", "close")
            assert document["error"] == "2 connections are open already (--max-connections); connect again later."
            assert refused.is_closed()
        with here.visit(GET) as probe:
            status, headers, document = probe.answer()
            assert (status, headers["connection"], document, probe.is_closed()) == (200, "close", 0, True)

        assert busy.send(b"1" * 9).echoed() == 9


def test_of_those_beyond_the_limit_the_newest_are_kept() -> None:
    with serving(1) as here, here.visit(POST % 9), contextlib.ExitStack() as surplus:
        oldest, *_ = [surplus.enter_context(here.visit()) for _ in range(MAX_SURPLUS_CONNECTIONS)]
        here.let_pass()

        assert oldest.was_reset()


@pytest.mark.parametrize("kind", LOOPS)
def test_a_body_behind_a_request_that_is_answered_is_not_read(kind: str) -> None:
    size = 900_000
    with serving(5, kind) as here, here.visit(b"GET /waiting HTTP/1.1\r\n\r\n" + POST % size, b"1" * size) as visitor:
        assert visitor.echoed() < size / 2
        assert visitor.echoed() == size


def test_so_many_requests_may_be_sent_ahead(served: Served) -> None:
    ahead = MAX_PIPELINED + 1
    with served.visit(GET * ahead + WHOLE) as visitor:
        assert [visitor.echoed() for _ in range(ahead)] == [0] * ahead

        assert visitor.is_closed()


# --- the server's end ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", LOOPS)
def test_a_request_that_crosses_the_servers_end_gets_its_response_and_learns_that_it_is_the_last(kind: str) -> None:
    with serving(5, kind, drain_idle_s=20) as here, here.visit() as new, here.visit(WHOLE) as kept:
        assert kept.echoed() == len(BODY)
        here.let_pass()
        here.drain()
        for visitor in (new, kept):
            status, headers, _ = visitor.send(WHOLE).answer()
            assert (status, headers["connection"], visitor.is_closed()) == (200, "close", True)


@pytest.mark.parametrize("kind", LOOPS)
def test_an_idle_connection_is_closed_after_the_server_has_drained(kind: str) -> None:
    with serving(5, kind, drain_idle_s=0.01) as here, here.visit() as new, here.visit(WHOLE) as kept:
        assert kept.echoed() == len(BODY)
        here.drain()
        assert (new.is_closed(), kept.is_closed()) == (True, True)


@pytest.mark.parametrize("kind", LOOPS)
def test_a_request_that_has_begun_gets_its_response_after_the_server_has_drained(kind: str) -> None:
    with serving(5, kind) as here, here.visit(POST % len(BODY)) as busy:
        here.let_pass()
        here.drain()
        assert (busy.send(BODY).echoed(), busy.is_closed()) == (len(BODY), True)
