"""Answers that a predictor sends piece by piece: through the client, and through a whole transformer."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from data_plane.client.errors import PredictorBroken, PredictorTimeout
from data_plane.client.http import HttpClient
from data_plane.client.pieces import Pieces
from data_plane.client.responses import UpstreamResponse
from data_plane.client.sessions import Limits
from tests.support.scripted_server import OK, Behaviour, ScriptedServer, Visitor, never, says, scripted
from transformer_sdk.kserve import Model, PredictorConfig
from transformer_sdk.testing import TransformerServer

CHUNKED = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
EVENTS = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
MEGABYTE = b"x" * (1 << 20)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


Asks = Callable[..., Awaitable[UpstreamResponse]]


@contextlib.asynccontextmanager
async def asking(server: ScriptedServer, **limits: Any) -> AsyncIterator[Asks]:
    """What sends a request to the server."""
    client = HttpClient(limits=Limits(**limits))

    async def ask(timeout_s: float = 30.0, path: str = "/") -> UpstreamResponse:
        return await client.send("POST", server.host, path, (), b"{}", timeout_s, stream=True)

    try:
        yield ask
    finally:
        await client.close()


def pieces_of(answer: UpstreamResponse) -> Pieces:
    assert answer.pieces is not None, "the answer came whole"
    return answer.pieces


async def all_of(answer: UpstreamResponse) -> bytes:
    return b"".join([piece async for piece in pieces_of(answer)])


def in_two(head: bytes, first: bytes, then: bytes, go_on: asyncio.Event) -> Behaviour:
    """Again and again; the second part when the event says so."""

    async def behave(visitor: Visitor) -> None:
        while True:
            await visitor.request()
            await visitor.say(head + first)
            await go_on.wait()
            await visitor.say(then)

    return behave


@pytest.mark.parametrize(
    ("head", "first", "then"),
    [
        (CHUNKED, chunk(b"one "), chunk(b"two") + END),
        (EVENTS, chunk(b"one "), chunk(b"two") + END),
        (EVENTS.replace(b"transfer-encoding: chunked", b"content-length: 7"), b"one ", b"two"),
    ],
    ids=["chunks", "events", "events of a known length"],
)
async def test_pieces_come_as_they_arrive_and_the_connection_is_kept(head: bytes, first: bytes, then: bytes) -> None:
    go_on = asyncio.Event()
    async with scripted(in_two(head, first, then, go_on)) as server, asking(server) as ask:
        answer = await ask()
        early = await anext(pieces_of(answer))
        go_on.set()
        late = await all_of(answer)
        again = await ask()
        if again.pieces:  # it may have come at once
            await all_of(again)

    assert (early, late, server.visits) == (b"one ", b"two", 1)


async def test_an_answer_that_ends_with_its_connection_comes_in_pieces_too() -> None:
    async with scripted(says(b"HTTP/1.0 200 OK\r\n\r\nuntil the end")) as server, asking(server) as ask:
        assert await all_of(await ask()) == b"until the end"


@pytest.mark.parametrize(
    ("text", "body"),
    [
        (CHUNKED + chunk(b"[1]") + END, b"[1]"),
        (OK, b'{"predictions":[7]}'),
    ],
    ids=["all chunks at once", "a length"],
)
async def test_what_is_whole_stays_whole(text: bytes, body: bytes) -> None:
    async with scripted(says(text)) as server, asking(server) as ask:
        answer = await ask()

    assert (answer.body, answer.pieces) == (body, None)


async def test_an_error_in_chunks_is_read_whole() -> None:
    go_on = asyncio.Event()
    go_on.set()
    head = CHUNKED.replace(b"200 OK", b"429 Slow")
    async with scripted(in_two(head, chunk(b"no "), chunk(b"room") + END, go_on)) as server, asking(server) as ask:
        answer = await ask()

    assert (answer.status, answer.body) == (429, b"no room")


async def test_an_answer_that_is_still_read_has_a_connection() -> None:
    behave = in_two(CHUNKED, chunk(b"one "), chunk(b"two") + END, asyncio.Event())
    async with scripted(behave) as server, asking(server, connections=1) as ask:
        reading = pieces_of(await ask())
        with pytest.raises(PredictorTimeout, match="all 1 connections are in use"):
            await ask(timeout_s=0.01)
        await reading.aclose()


async def test_an_answer_that_breaks_off_is_no_end() -> None:
    async with scripted(says(CHUNKED + chunk(b"half"))) as server, asking(server) as ask:
        pieces = pieces_of(await ask())
        assert await anext(pieces) == b"half"
        with pytest.raises(PredictorBroken, match=rf"{server.host} failed: .* in the middle of its response"):
            await anext(pieces)
        await server.all_closed.wait()


async def test_a_predictor_that_falls_silent_is_given_up() -> None:
    async def behave(visitor: Visitor) -> None:
        await visitor.request()
        await visitor.say(CHUNKED + chunk(b"one"))
        await visitor.reader.read()

    async with scripted(behave) as server, asking(server) as ask:
        pieces = pieces_of(await ask(1))
        assert await anext(pieces) == b"one"
        with pytest.raises(PredictorTimeout, match=r"sent nothing for 1 s in the middle of its response"):
            await anext(pieces)
        await server.all_closed.wait()


async def test_nothing_at_all_is_a_timeout_as_ever() -> None:
    async with scripted(never) as server, asking(server) as ask:
        with pytest.raises(PredictorTimeout, match=r"did not answer within 0.5 s"):
            await ask(0.5)


async def test_a_reader_who_is_slow_slows_the_predictor_down() -> None:
    sent = 0

    async def pours(visitor: Visitor) -> None:
        nonlocal sent
        await visitor.request()
        await visitor.say(CHUNKED)
        for _ in range(1000):
            await visitor.say(chunk(MEGABYTE))
            sent += 1
        await visitor.say(END)

    async with scripted(pours) as server, asking(server) as ask:
        pieces = pieces_of(await ask())
        before = -1
        while before != sent:  # until the predictor is stuck
            before = sent
            await asyncio.sleep(0.05)
        assert sent < 100  # megabytes: what the sockets hold, and a little more
        await pieces.aclose()


MANY = 300  # of every way to end, more than there are connections


async def test_answers_in_pieces_however_they_end_leave_no_connection_behind() -> None:
    """Read to the end, broken off, given up by the reader before and after the first piece."""

    begun = [asyncio.Event() for _ in range(MANY)]

    async def behave(visitor: Visitor) -> None:
        while True:
            number = int((await visitor.request()).split()[1].strip(b"/"))
            await visitor.say(CHUNKED + chunk(b"one"))
            await begun[number].wait()
            if number % 3 == 0:
                return
            await visitor.say(chunk(b"two") + END)

    async def one(ask: Asks, number: int) -> None:
        pieces = pieces_of(await ask(path=f"/{number}"))
        begun[number].set()
        if number % 5:
            async for _ in pieces:
                if number % 4 == 0:
                    break
        await pieces.aclose()

    async with scripted(behave) as server, asking(server, connections=20, idle_s=0.1) as ask:
        for start in range(0, MANY, 50):
            calls = (one(ask, start + number) for number in range(50))
            failures = await asyncio.gather(*calls, return_exceptions=True)
            assert {type(failure) for failure in failures} <= {type(None), PredictorBroken}
            assert server.open <= 20
        await server.all_closed.wait()

    assert len(server.requests) == MANY


# --- through a transformer


class Through(Model):
    def __init__(self) -> None:
        super().__init__("m")
        self.ready = True


class Counting(Through):
    async def postprocess(self, result: Any, headers: Any = None) -> Any:  # type: ignore[override]
        return {"count": len(result["predictions"])}


def transformed(model: Model, host: str) -> TransformerServer:
    return TransformerServer(model, predictor=PredictorConfig(host))


async def test_without_postprocess_a_client_reads_each_piece_when_it_is_sent() -> None:
    go_on = asyncio.Event()
    loop = asyncio.get_running_loop()

    def read(host: str) -> tuple[str | None, bytes, bytes]:
        with transformed(Through(), host) as server:
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
            connection.request("POST", "/v1/models/m:predict", b'{"instances": []}')
            answer = connection.getresponse()
            first = answer.read(5)
            loop.call_soon_threadsafe(go_on.set)
            rest = answer.read()
            connection.close()
            return answer.getheader("content-type"), first, rest

    async with scripted(in_two(EVENTS, chunk(b"data:"), chunk(b" 1\n\n") + END, go_on)) as predictor:
        assert await asyncio.to_thread(read, predictor.host) == ("text/event-stream", b"data:", b" 1\n\n")


async def test_an_answer_that_breaks_off_does_not_look_complete_to_the_client() -> None:
    def read(host: str) -> None:
        with transformed(Through(), host) as server:
            server.post({"instances": []})

    async with scripted(says(CHUNKED + chunk(b'{"predictions": ['))) as predictor:
        with pytest.raises(http.client.IncompleteRead):
            await asyncio.to_thread(read, predictor.host)


async def test_a_client_that_hangs_up_is_noticed_while_the_predictor_is_silent() -> None:
    loop = asyncio.get_running_loop()

    async def begins(visitor: Visitor) -> None:
        await visitor.request()
        await visitor.say(EVENTS + chunk(b"data:"))
        await visitor.reader.read()  # until the transformer hangs up

    def read(host: str) -> None:
        with transformed(Through(), host) as server:
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
            connection.request("POST", "/v1/models/m:predict", b'{"instances": []}')
            with connection.getresponse() as answer:
                assert answer.read(5) == b"data:"
            connection.close()
            asyncio.run_coroutine_threadsafe(predictor.all_closed.wait(), loop).result(30)

    async with scripted(begins) as predictor:
        await asyncio.to_thread(read, predictor.host)


async def test_a_hook_that_makes_pieces_is_ended_when_its_client_hangs_up() -> None:
    ended = threading.Event()

    class Talking(Through):
        async def predict(self, payload: Any, headers: Any = None) -> Any:  # type: ignore[override]
            async def pieces() -> AsyncIterator[bytes]:
                try:
                    yield b"data:"
                    await asyncio.Event().wait()
                finally:
                    ended.set()

            return pieces()

    def read() -> bool:
        with TransformerServer(Talking()) as server:
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
            connection.request("POST", "/v1/models/m:predict", b'{"instances": []}')
            with connection.getresponse() as answer:
                answer.read(5)
            connection.close()
            return ended.wait(30)

    assert await asyncio.to_thread(read)


async def test_postprocess_gets_the_whole_answer_however_it_comes() -> None:
    go_on = asyncio.Event()
    go_on.set()

    def read(host: str) -> Any:
        with transformed(Counting(), host) as server:
            return server.post({"instances": []}).json()

    parts = in_two(CHUNKED, chunk(b'{"predictions": '), chunk(b"[1, 2]}") + END, go_on)
    async with scripted(parts) as predictor:
        assert await asyncio.to_thread(read, predictor.host) == {"count": 2}


async def test_a_client_of_http_1_0_gets_the_answer_whole() -> None:
    go_on = asyncio.Event()
    go_on.set()

    async def read(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /v1/models/m:predict HTTP/1.0\r\ncontent-length: 2\r\n\r\n{}")
        said = await reader.read()
        writer.close()
        await writer.wait_closed()
        return said

    document = json.dumps({"predictions": []}).encode()
    async with scripted(in_two(CHUNKED, chunk(document[:5]), chunk(document[5:]) + END, go_on)) as predictor:
        server = transformed(Through(), predictor.host)
        await asyncio.to_thread(server.__enter__)
        try:
            said = await read(server.port)
        finally:
            await asyncio.to_thread(server.__exit__)

    head, _, body = said.partition(b"\r\n\r\n")
    assert (b"transfer-encoding" in head, body) == (False, document)
