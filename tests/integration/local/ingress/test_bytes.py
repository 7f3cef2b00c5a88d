"""What only raw bytes can show of the ingress: framing, codings, and targets that are refused."""

from __future__ import annotations

import asyncio
import gzip
import io

import pytest
from aiohttp import web
from multidict import CIMultiDict

from isvc.run.container import LOOPBACK
from tests.integration.local.ingress.ends import HOST, Ends, as_sent, echo_raw, status_of, talk


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "identity", "x-of-ours"])
async def test_a_compressed_body_arrives_as_it_was_sent(ends: Ends, coding: str) -> None:
    body = gzip.compress(b"0" * 1_000_000)

    async def keep(request: web.Request) -> web.Response:
        headers = request.headers
        same = await request.read() == body
        return web.json_response([same, headers["Content-Encoding"], headers["Content-Length"]])

    ends.handler = keep
    async with ends.session.post(ends.url, data=body, headers={"Content-Encoding": coding}) as answer:
        assert await answer.json() == [True, coding, str(len(body))]


@pytest.mark.parametrize("size", [0, 1, 20_000_000])
async def test_a_body_of_any_size_is_passed_on_completely_both_ways(ends: Ends, size: int) -> None:
    async def back(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        async for chunk in request.content.iter_any():
            await response.write(chunk)
        return response

    ends.handler = back
    async with ends.session.post(ends.url, data=io.BytesIO(b"x" * size)) as answer:
        assert len(await answer.read()) == size


async def test_every_connection_field_names_what_ends_here(ends: Ends) -> None:
    ends.handler = echo_raw

    answer = await talk(
        ends,
        as_sent(
            "GET / HTTP/1.1", "Connection: X-First", "X-First: 1", "Connection: X-Second", "X-Second: 2", "X-Kept: 3"
        ),
    )

    assert b'"X-Kept: 3"' in answer
    assert b"X-First" not in answer
    assert b"X-Second" not in answer


async def test_framing_headers_are_kept_even_if_the_client_names_them_in_connection(ends: Ends) -> None:
    """Who calls Host or Content-Length a field of the connection would else choose what the server takes for them."""
    ends.handler = echo_raw

    answer = await talk(
        ends,
        as_sent(
            "POST / HTTP/1.1", "Connection: Host, Content-Length, Content-Encoding", "Content-Length: 3", body=b"abc"
        ),
    )

    assert f'"Host: {HOST}"'.encode() in answer
    assert b'"Content-Length: 3"' in answer
    assert answer.endswith(b"3]")


async def test_fields_of_the_same_name_all_arrive_and_all_come_back(ends: Ends) -> None:
    async def twice(request: web.Request) -> web.Response:
        headers = CIMultiDict([("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")])
        return web.json_response(request.headers.getall("X-Own"), headers=headers)

    ends.handler = twice
    async with ends.session.get(ends.url, headers=CIMultiDict([("X-Own", "1"), ("X-Own", "2")])) as answer:
        assert await answer.json() == ["1", "2"]
        assert answer.headers.getall("Set-Cookie") == ["a=1", "b=2"]


async def test_a_body_with_trailers_arrives_whole(ends: Ends) -> None:
    ends.handler = echo_raw

    answer = await talk(
        ends,
        as_sent(
            "POST / HTTP/1.1",
            "Transfer-Encoding: chunked",
            "Trailer: X-Sum",
            body=b"3\r\nabc\r\n0\r\nX-Sum: 6\r\n\r\n",
        ),
    )

    assert answer.startswith(b"HTTP/1.1 200")
    assert b"Trailer" not in answer
    assert answer.endswith(b"3]")


async def test_a_client_that_expects_100_continue_gets_it_and_a_response(ends: Ends) -> None:
    ends.handler = echo_raw

    answer = await talk(ends, as_sent("POST / HTTP/1.1", "Expect: 100-continue", "Content-Length: 3", body=b"abc"))

    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200")
    assert b"Expect" not in answer
    assert answer.endswith(b"3]")


async def test_a_client_that_expects_100_continue_is_refused_before_it_sends_the_body(ends: Ends) -> None:
    request = as_sent("POST / HTTP/1.1", "Expect: 100-continue", "Content-Length: 3").replace(b"first", b"other")

    assert status_of(await talk(ends, request)) == 404


@pytest.mark.parametrize("upgrade", ["h2c", "websocket", "TLS/1.0"])
async def test_an_upgrade_is_not_made_and_the_request_answered(ends: Ends, upgrade: str) -> None:
    """The upgrade that `curl --http2` requests with its first request."""
    ends.handler = echo_raw

    answer = await talk(
        ends,
        as_sent(
            "POST / HTTP/1.1", "Connection: Upgrade, HTTP2-Settings", f"Upgrade: {upgrade}",
            "HTTP2-Settings: AAMAAABkAAQ", "Content-Length: 3", body=b"abc",
        ),
    )  # fmt: skip

    assert answer.startswith(b"HTTP/1.1 200")
    assert b"HTTP2-Settings" not in answer
    assert b"Upgrade" not in answer
    assert answer.endswith(b"3]")


@pytest.mark.parametrize(
    "target",
    ["*", "@127.0.0.1:1/", "x@127.0.0.1:1/", ":1/", "http://other.example.com/a", "first.default.example.com:80", ""],
)
async def test_a_target_that_is_not_a_path_is_refused(ends: Ends, target: str) -> None:
    """Put behind the server's address, some of these would lead to another host or another port."""
    ends.handler = echo_raw

    answer = await talk(ends, as_sent(f"OPTIONS {target} HTTP/1.1"))

    assert status_of(answer) == 400


async def test_the_path_is_passed_on_to_the_letter(ends: Ends) -> None:
    ends.handler = echo_raw

    answer = await talk(ends, as_sent("GET //a/../b%2F%0a/./c?x=%00&y=+#z HTTP/1.1"))

    assert b'["//a/../b%2F%0a/./c?x=%00&y=+"' in answer


async def test_a_body_that_breaks_off_is_not_taken_for_a_whole_one(ends: Ends) -> None:
    begun = asyncio.Event()
    got: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def take(request: web.Request) -> web.Response:
        await request.content.readany()
        begun.set()
        try:
            await request.read()
        except Exception as error:
            got.set_result(type(error).__name__)
            raise
        got.set_result("whole")
        return web.Response()

    ends.handler = take
    reader, writer = await asyncio.open_connection(LOOPBACK, int(ends.url.rpartition(":")[2]))
    writer.write(as_sent("POST / HTTP/1.1", "Content-Length: 1000000", body=b"0" * 100_000))
    await begun.wait()
    writer.close()

    assert await got == "ConnectionResetError"
    assert await reader.read() == b""
