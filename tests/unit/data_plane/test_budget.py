"""What requests may hold together, by the messages of ASGI: no server is involved."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest

from data_plane.errors import BuffersFull, UnknownModel
from data_plane.limits import SMALL_RESPONSE
from data_plane.messages import Headers, Request, Response, json_response
from data_plane.server.app import App
from data_plane.server.budget import ByteBudget, Held
from data_plane.server.metrics import ServerMetrics
from data_plane.server.routing import Route, Router

EXPECT = (b"expect", b"100-continue")


def known(params: Mapping[str, str]) -> None:
    if params["model"] != "m":
        raise UnknownModel(params["model"], ["m"])


@dataclass
class Asked:
    """What a client has not sent yet, and what it was answered."""

    unread: list[bytes | None]
    sent: list[Any] = field(default_factory=list)
    unread_then: list[bytes | None] = field(default_factory=list)  # when the answer began

    async def receive(self) -> dict[str, Any]:
        piece = self.unread.pop(0)
        if piece is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": piece, "more_body": bool(self.unread)}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.unread_then = list(self.unread)
        self.sent.append(message)

    @property
    def answer(self) -> tuple[int, Any]:
        start, *parts = self.sent
        assert [part.get("more_body", False) for part in parts] == [True] * (len(parts) - 1) + [False]
        document = orjson.loads(b"".join(part["body"] for part in parts))
        return start["status"], document["error"] if isinstance(document, dict) else document

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])


@dataclass
class Server:
    """An application with a budget, asked one request at a time."""

    limit: int = 10
    max_body: int = 100
    budget: ByteBudget = field(init=False)
    held: list[int] = field(default_factory=list)  # while a request was answered

    def __post_init__(self) -> None:
        self.budget = ByteBudget(self.limit)
        routes = [Route("POST", "/{model}", self.echo, known), Route("POST", "/{model}/fail", self.fail)]
        routes.append(Route("POST", "/{model}/metadata", self.metadata))
        self.app = App(Router(routes), ServerMetrics(), self.max_body, self.budget)

    async def echo(self, request: Request) -> Response:
        self.held.append(self.budget.held)
        return json_response(request.body.decode())

    async def metadata(self, request: Request) -> Response:
        return json_response(request.params["model"])

    async def fail(self, _: Request) -> Response:
        raise KeyError("gone")

    async def ask(self, *pieces: bytes | None, path: str = "/m", headers: Headers = ()) -> Asked:
        asked = Asked(list(pieces))
        scope = {"type": "http", "method": "POST", "path": path, "headers": headers}
        await self.app(scope, asked.receive, asked.send)
        return asked


UNKNOWN = (404, "Model with name x does not exist. Models served here: m.")
FULL = (
    503,
    "Requests that are being read or answered hold 10 bytes already (--max-buffered-bytes); send it again later.",
)


async def test_a_body_for_an_unknown_model_is_not_read() -> None:
    asked = await Server().ask(b"1", b"2", b"3", path="/x")

    assert (asked.answer, asked.unread_then) == (UNKNOWN, [b"2", b"3"])


@pytest.mark.parametrize("pieces", [[b"123"], [b"1", b"23"]], ids=["whole", "in-pieces"])
async def test_a_body_counts_until_it_is_answered(pieces: list[bytes]) -> None:
    server = Server()

    assert (await server.ask(*pieces)).answer == (200, "123")
    assert (server.held, server.budget.held) == ([3], 0)


@pytest.mark.parametrize(
    ("pieces", "path"),
    [([b"1", b"2"], "/m/fail"), ([b"12", None], "/m"), ([b"1" * 60, b"2" * 60], "/m")],
    ids=["fails", "gone", "too-large"],
)
async def test_what_ends_otherwise_counts_no_more(pieces: list[bytes | None], path: str) -> None:
    server = Server(limit=1000)

    await server.ask(*pieces, path=path)

    assert server.budget.held == 0


@pytest.mark.parametrize("pieces", [[b"12345"], [b"123", b"45", b""]], ids=["whole", "in-pieces"])
async def test_a_body_that_finds_no_room_is_refused(pieces: list[bytes]) -> None:
    server = Server()
    others = Held(server.budget)
    others.add(6)

    asked = await server.ask(*pieces)

    assert (asked.answer, asked.headers[b"retry-after"]) == (FULL, b"1")
    assert server.budget.held == 6

    others.release()
    assert (await server.ask(*pieces)).answer == (200, "12345")


@pytest.mark.parametrize("headers", [(), (EXPECT,)], ids=["sends", "asks-first"])
async def test_one_that_says_that_it_will_find_none_is_refused_before_it_is_read(headers: Headers) -> None:
    server = Server()
    Held(server.budget).add(6)

    asked = await server.ask(b"1", b"2345", b"", headers=((b"content-length", b"5"), *headers))

    assert (asked.answer, asked.unread_then[-2:]) == (FULL, [b"2345", b""])


async def test_a_request_without_a_body_is_refused_where_a_model_would_answer_it() -> None:
    server = Server()
    Held(server.budget).add(10)

    assert (await server.ask(b"")).answer == FULL
    assert (await server.ask(b"", path="/m/metadata")).answer == (200, "m")


async def test_whoever_finds_no_room_has_those_dropped_whose_callers_are_gone() -> None:
    server = Server()
    hung_up = Held(server.budget)
    hung_up.add(10)
    dropped = asyncio.Event()

    async def gone() -> None:
        await dropped.wait()
        hung_up.release()

    waiting = asyncio.ensure_future(gone())
    await asyncio.sleep(0)
    server.budget.drop_gone = dropped.set

    assert (await server.ask(b"123")).answer == (200, "123")
    await waiting


async def test_an_answer_counts_until_it_is_written() -> None:
    server = Server(limit=5 * SMALL_RESPONSE, max_body=5 * SMALL_RESPONSE)
    body = b"1" * 2 * SMALL_RESPONSE

    asked = await server.ask(body)
    assert (asked.answer, server.budget.peak) == ((200, body.decode()), 2 * len(body) + 2)

    Held(server.budget).add(2 * SMALL_RESPONSE)
    assert (await server.ask(body)).answer[0] == 503
    assert server.budget.held == 2 * SMALL_RESPONSE


async def test_one_that_is_alone_is_taken_whatever_its_size() -> None:
    assert (await Server().ask(b"1234567", b"89012345")).answer == (200, "123456789012345")


async def test_nor_of_one_that_says_so() -> None:
    server = Server(limit=1000)
    asked = await server.ask(b"1" * 60, b"2" * 60, headers=((b"content-length", b"120"),))

    assert (asked.answer[0], asked.unread, server.budget.peak) == (413, [], 0)


def test_answers_that_nobody_reads_count_too() -> None:
    budget = ByteBudget(10)
    budget.count_unsent(8)

    with pytest.raises(BuffersFull):
        Held(budget).add(3)
    assert budget.peak == 8

    budget.count_unsent(-8)
    Held(budget).add(3)
