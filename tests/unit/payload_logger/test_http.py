"""Which requests over HTTP are logged, and what of their responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from data_plane.errors import InferenceFailed
from data_plane.messages import Headers, Request, Response, StreamingResponse
from data_plane.payload_logger.settings import Mode
from data_plane.server.app import App
from data_plane.server.metrics import ServerMetrics
from data_plane.server.routing import Route, Router
from tests.support.event_sinks import event_of, responds, told
from tests.unit.payload_logger.loggers import logging_to

LONG_S = 20.0
MODEL = "/v1/models/m:predict"


async def double(request: Request) -> Response:
    return Response(2 * request.body, content_type=b"text/plain")


async def fail(_: Request) -> Response:
    raise InferenceFailed("no")


async def stream(_: Request) -> StreamingResponse:
    async def words() -> AsyncIterator[bytes]:
        yield b"one "
        yield b"two "
        raise InferenceFailed("no more")

    return StreamingResponse(words(), content_type=b"text/event-stream")


ROUTES = (
    Route("POST", MODEL, double, lambda _: None),
    Route("POST", "/v1/models/m:explain", fail, lambda _: None),
    Route("POST", "/predictions/m", stream, lambda _: None),
    Route("GET", "/v1/models/m", double),
)


async def logged(method: str, path: str, body: bytes = b"question", headers: Headers = ()) -> list[bytes]:
    """The requests that the sink gets for one request to the server."""
    async with logging_to(responds(200), mode=Mode.ALL) as (logger, sink):
        app = App(Router(ROUTES), ServerMetrics(), 1000, payloads=logger)
        arriving = asyncio.Queue[dict[str, Any]]()
        arriving.put_nowait({"type": "http.request", "body": body})

        async def send(_: object) -> None:
            pass

        scope = {"type": "http", "method": method, "path": path, "headers": [(b"x-request-id", b"7"), *headers]}
        await app(scope, arriving.get, send)
        await logger.close(LONG_S)
        return sorted(sink.requests, key=lambda one: event_of(one)["type"])


async def test_the_id_of_an_event_is_kept() -> None:
    sent = await logged("POST", MODEL, headers=((b"ce-id", b"of-the-client"),))

    assert [identity for _, identity, _ in told(sent)] == ["of-the-client"] * 2


async def test_of_a_failed_request_there_is_no_response() -> None:
    assert told(await logged("POST", "/v1/models/m:explain")) == [("request", "7", b"question")]


async def test_a_streamed_response_is_one_event_of_what_was_sent() -> None:
    sent = await logged("POST", "/predictions/m")

    assert told(sent) == [("request", "7", b"question"), ("response", "7", b"one two ")]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("GET", "/v1/models/m", b""), ("POST", "/nowhere", b"a"), ("POST", MODEL, bytes(1001))],
    ids=["probe", "no-route", "too-large"],
)
async def test_what_reaches_no_model_is_not_logged(method: str, path: str, body: bytes) -> None:
    assert await logged(method, path, body) == []
