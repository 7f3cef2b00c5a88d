"""The ASGI application by its wire: what it answers to which messages. No server is involved."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from data_plane.errors import NotReady, UpstreamError
from data_plane.messages import Headers, Request, Response, json_response
from data_plane.server.app import IS_GONE, App
from data_plane.server.metrics import ServerMetrics
from data_plane.server.routing import Route, Router

LIMIT = 8


async def echo(request: Request) -> Response:
    return json_response({"body": request.body.decode(), "params": request.params, "id": request.id})


async def unready(_: Request) -> Response:
    raise NotReady("wait")


async def broken(_: Request) -> Response:
    raise KeyError("gone")


async def refused(_: Request) -> Response:
    raise UpstreamError("upstream", 418, "no")


async def quoting(_: Request) -> Response:
    raise ValueError("no such label: \ud800")


class Unspeakable(Exception):
    def __str__(self) -> str:
        return str(1 / 0)


async def unspeakable(_: Request) -> Response:
    raise Unspeakable


seen: list[float | None] = []


async def counted(_: Request) -> Response:
    seen.append(METRICS.registry.get_sample_value("requests_in_flight"))
    return json_response({})


UNWRITABLE = "(it cannot be written: its text raises ZeroDivisionError)"
METRICS = ServerMetrics()
APP = App(
    Router(
        [
            Route("POST", "/echo/{name}", echo),
            Route("POST", "/echo/{name}:loud", echo),
            Route("POST", "/counted", counted),
            Route("GET", "/counted", counted),
            Route("GET", "/unready", unready),
            Route("GET", "/broken", broken),
            Route("GET", "/refused", refused),
            Route("GET", "/quoting", quoting),
            Route("GET", "/unspeakable", unspeakable),
        ]
    ),
    METRICS,
    LIMIT,
)


class Wire:
    """The messages that a server would send and get."""

    def __init__(self, chunks: Sequence[bytes | None]) -> None:
        self.unread = list(chunks)
        self.sent: list[dict[str, Any]] = []

    async def receive(self) -> dict[str, Any]:
        chunk = self.unread.pop(0)
        if chunk is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": chunk, "more_body": bool(self.unread)}

    async def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)


async def ask(method: str, path: str, *chunks: bytes | None, headers: Headers = ()) -> Wire:
    wire = Wire(chunks or [b""])
    scope = {"type": "http", "method": method, "path": path, "headers": [(b"x-request-id", b"7"), *headers]}
    await APP(scope, wire.receive, wire.send)  # type: ignore[arg-type]
    return wire


def answer(wire: Wire) -> tuple[int, Any, dict[bytes, bytes]]:
    start, *parts = wire.sent
    return start["status"], orjson.loads(b"".join(part["body"] for part in parts)), dict(start["headers"])


@pytest.mark.parametrize(("method", "expected"), [("POST", 1.0), ("GET", 0.0)])
async def test_a_request_to_a_model_is_in_flight_until_it_is_answered(method: str, expected: float) -> None:
    seen.clear()

    await ask(method, "/counted")
    await ask("POST", "/nowhere")

    assert seen == [expected]
    assert METRICS.registry.get_sample_value("requests_in_flight") == 0.0


async def test_the_more_specific_route_wins() -> None:
    assert answer(await ask("POST", "/echo/me:loud"))[1]["params"] == {"name": "me"}


@pytest.mark.parametrize(
    ("method", "path", "status", "message", "component", "headers"),
    [
        ("GET", "/nowhere", 404, "There is nothing at /nowhere; /docs lists the paths.", "server", {}),
        ("GET", "/echo/a/b", 404, "There is nothing at /echo/a/b; did you mean /echo/a?", "server", {}),
        ("POST", "/ecko/me", 404, "There is nothing at /ecko/me; did you mean /echo/me?", "server", {}),
        ("GET", "/echo/me", 405, "GET is not allowed on /echo/me; use POST.", "server", {b"allow": b"POST"}),
        (
            "GET",
            "/echo/a:lout",
            405,
            "GET is not allowed on /echo/a:lout; did you mean /echo/a:loud?",
            "server",
            {b"allow": b"POST"},
        ),
        ("GET", "/unready", 503, "wait", "server", {b"retry-after": b"1"}),
        ("GET", "/broken", 500, "KeyError : 'gone'", "server", {}),
        ("GET", "/refused", 418, "no", "upstream", {}),
        ("GET", "/quoting", 500, r"ValueError : no such label: \ud800", "server", {}),
        ("GET", "/unspeakable", 500, f"Unspeakable : {UNWRITABLE}", "server", {}),
    ],
)
async def test_every_error_has_one_form(
    method: str, path: str, status: int, message: str, component: str, headers: dict[bytes, bytes]
) -> None:
    got = answer(await ask(method, path))

    document = {"error": message, "component": component, "request_id": "7"}
    length = str(len(orjson.dumps(document))).encode()
    common = {b"content-type": b"application/json", b"content-length": length, b"x-request-id": b"7"}
    assert got == (status, document, {**common, **headers})


async def test_a_body_over_the_limit_is_read_to_its_end_and_refused() -> None:
    wire = await ask("POST", "/echo/me", b"12345", b"6789", b"0")

    status, document, headers = answer(wire)
    assert (status, headers[b"connection"]) == (413, b"close")
    assert document["error"] == "The request body is over the limit of 8 bytes (--max-request-size)."
    assert wire.unread == []


async def test_a_client_that_asks_first_is_refused_before_it_sends() -> None:
    wire = await ask(
        "POST", "/echo/me", b"123456789", headers=((b"content-length", b"9"), (b"expect", b"100-continue"))
    )

    assert (answer(wire)[0], wire.unread) == (413, [b"123456789"])


async def test_a_client_that_leaves_while_its_response_is_written_is_no_error() -> None:
    """uvloop refuses to write once a write has failed; uvicorn knows of it in the loop's next turn."""

    async def send(_: dict[str, Any]) -> None:
        raise RuntimeError("unable to perform operation; the handler is closed")

    for is_gone in (True, False):
        scope = {"method": "GET", "path": "/counted", "headers": [], IS_GONE: lambda gone=is_gone: gone}
        outcome = await asyncio.gather(APP(scope, Wire([b""]).receive, send), return_exceptions=True)  # type: ignore[arg-type]
        assert outcome == [None] if is_gone else isinstance(outcome[0], RuntimeError)
