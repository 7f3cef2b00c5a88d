"""The ingress between real sockets: requests reach the server, and its responses reach the client."""

from __future__ import annotations

import asyncio
import gzip
import io
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import pytest
from aiohttp import web
from multidict import CIMultiDict

from isvc_operator import limits
from isvc_operator.local.container import LOOPBACK
from isvc_operator.local.endpoints import Endpoints
from isvc_operator.local.errors import RunFailed
from isvc_operator.local.ingress import ingress
from isvc_operator.local.routes import IngressRoute

HOST = "first.default.example.com"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Ends:
    """A client session with the ingress, and the server behind it, which responds with ``handler``."""

    session: aiohttp.ClientSession
    url: str
    behind: int  # the server's port
    handler: Handler

    async def handle(self, request: web.Request) -> web.StreamResponse:
        return await self.handler(request)


@pytest.fixture
async def ends() -> AsyncIterator[Ends]:
    ends = Ends()
    runner = web.ServerRunner(web.Server(ends.handle, access_log=None, auto_decompress=False))
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, 0).start()
    ends.behind = runner.addresses[0][1]
    async with (
        ingress([IngressRoute(HOST, "/", "first-predictor", Endpoints((ends.behind,)))], 0) as port,
        aiohttp.ClientSession(headers={"Host": HOST}, auto_decompress=False) as ends.session,
    ):
        ends.url = f"http://{LOOPBACK}:{port}"
        yield ends
    await runner.cleanup()


async def test_method_path_headers_and_body_arrive_as_they_were_sent(ends: Ends) -> None:
    async def echo(request: web.Request) -> web.Response:
        headers = {name: value for name, value in request.headers.items() if name != "Content-Length"}
        return web.json_response([request.method, request.raw_path, headers, (await request.read()).decode()])

    ends.handler = echo
    sent = {
        "Cookie": "session=abc",
        "Connection": "keep-alive, X-Mine",
        "X-Mine": "hop",
        "TE": "trailers",
        "X-Own": "1",
    }
    skipped = ["Accept", "Accept-Encoding", "Content-Type", "User-Agent"]
    async with ends.session.put(
        f"{ends.url}/v1/m%2Fx:predict?a=%20", data=b"{}", headers=sent, skip_auto_headers=skipped
    ) as answer:
        method, path, headers, body = await answer.json()

    assert (method, path, body) == ("PUT", "/v1/m%2Fx:predict?a=%20", "{}")
    assert headers == {"Host": HOST, "Cookie": "session=abc", "X-Own": "1", "Connection": "close"}


async def test_a_service_on_a_shared_host_gets_the_path_without_its_prefix(ends: Ends) -> None:
    async def echo(request: web.Request) -> web.Response:
        return web.Response(text=request.raw_path)

    ends.handler = echo
    route = IngressRoute(
        "shared.example.com", "/of/first", "first-predictor", Endpoints((ends.behind,)), prefix="/of/first"
    )
    async with ingress([route], 0) as port:
        url, headers = f"http://{LOOPBACK}:{port}", {"Host": route.host}
        async with ends.session.get(f"{url}/of/first/v1/models?a=/of/first", headers=headers) as answer:
            assert await answer.text() == "/v1/models?a=/of/first"
        async with ends.session.get(f"{url}/of/firsts", headers=headers) as answer:
            assert (answer.status, await answer.json()) == (404, {
                "error": "no service has the path '/of/firsts' on host 'shared.example.com'; "
                "available: shared.example.com/of/first"
            })  # fmt: skip


async def test_status_reason_and_headers_of_a_response_are_passed_on(ends: Ends) -> None:
    async def refuse(request: web.Request) -> web.Response:
        headers = {"X-Own": "1", "Set-Cookie": "a=b", "Content-Encoding": "gzip"}
        return web.Response(status=422, reason="Not Like This", body=b"zipped", headers=headers)

    ends.handler = refuse
    async with ends.session.get(ends.url) as answer:
        body = await answer.read()

    assert (answer.status, answer.reason, body) == (422, "Not Like This", b"zipped")
    assert answer.headers["X-Own"] == "1"
    assert answer.headers["Set-Cookie"] == "a=b"
    assert answer.headers["Content-Encoding"] == "gzip"


async def test_cookies_of_one_caller_are_not_sent_for_another(ends: Ends) -> None:
    async def give_cookie(request: web.Request) -> web.Response:
        return web.Response(text=str(dict(request.cookies)), headers={"Set-Cookie": "session=abc"})

    ends.handler = give_cookie
    async with aiohttp.ClientSession(headers={"Host": HOST}, cookie_jar=aiohttp.DummyCookieJar()) as other:
        for session in (ends.session, other):
            async with session.get(ends.url) as answer:
                assert await answer.text() == "{}"


@pytest.mark.parametrize(
    ("sent", "arrives"),
    [
        ("isvc-dashboard-8081=secret; a=1;b=2", "a=1;b=2"),
        ("a=1; isvc-session-80=secret", "a=1"),
        (" isvc-dashboard-8081=secret", None),
        ("a=isvc-dashboard-8081;  b=2", "a=isvc-dashboard-8081;  b=2"),
    ],
)
async def test_a_model_neither_gets_nor_sets_the_dashboards_cookies(ends: Ends, sent: str, arrives: str | None) -> None:
    async def echo(request: web.Request) -> web.Response:
        headers = CIMultiDict([("Set-Cookie", "isvc-dashboard-8081=x; Path=/"), ("Set-Cookie", "a=1")])
        return web.json_response(request.headers.get("Cookie"), headers=headers)

    ends.handler = echo
    async with ends.session.get(ends.url, headers={"Cookie": sent}) as answer:
        assert await answer.json() == arrives
        assert answer.headers.getall("Set-Cookie") == ["a=1"]


async def test_a_body_is_passed_on_while_it_is_received(ends: Ends) -> None:
    """The second part of the response is sent only after the client has received the first."""
    has_first = asyncio.Event()

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"first")
        await has_first.wait()
        await response.write(b"second")
        return response

    ends.handler = stream
    async with ends.session.get(ends.url) as answer:
        assert await answer.content.readany() == b"first"
        has_first.set()
        assert await answer.content.read() == b"second"


async def test_the_response_to_a_head_request_has_no_body(ends: Ends) -> None:
    async def sized(request: web.Request) -> web.Response:
        return web.Response(body=b"12345")

    ends.handler = sized
    async with ends.session.head(ends.url) as answer:
        assert (answer.status, answer.headers["Content-Length"], await answer.read()) == (200, "5", b"")


async def test_a_response_before_the_end_of_the_body_reaches_the_client(ends: Ends) -> None:
    async def too_large(request: web.Request) -> web.Response:
        return web.json_response({"error": "too large"}, status=413, headers={"Connection": "close"})

    ends.handler = too_large
    async with ends.session.post(ends.url, data=io.BytesIO(b"0" * 20_000_000)) as answer:
        assert (answer.status, await answer.json()) == (413, {"error": "too large"})


async def test_an_unknown_host_is_answered_with_the_hosts_that_there_are(ends: Ends) -> None:
    async with ends.session.get(ends.url, headers={"Host": "other.example.com"}) as answer:
        assert answer.status == 404
        assert await answer.json() == {"error": f"no service has the host 'other.example.com'; available: {HOST}"}


async def test_a_server_that_breaks_off_is_a_bad_gateway(ends: Ends) -> None:
    async def break_off(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    ends.handler = break_off
    async with ends.session.get(ends.url) as answer:
        assert answer.status == 502
        assert (await answer.json())["error"].startswith("first-predictor closed the connection: ")


async def test_a_truncated_response_is_truncated_for_the_client_too(ends: Ends) -> None:
    async def cut_short(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"only this")
        assert request.transport is not None
        request.transport.close()
        return response

    ends.handler = cut_short
    async with ends.session.get(ends.url) as answer:
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    with socket.socket() as bound:  # it does not listen
        bound.bind((LOOPBACK, 0))
        route = IngressRoute(HOST, "/", "first-predictor", Endpoints((bound.getsockname()[1],)))
        async with (
            ingress([route], 0) as port,
            aiohttp.ClientSession() as session,
            session.get(f"http://{LOOPBACK}:{port}/", headers={"Host": HOST}) as answer,
        ):
            assert answer.status == 503
            expected = {"error": "first-predictor does not respond; it is starting, or it has exited"}
            assert await answer.json() == expected


async def test_a_pod_that_refuses_the_connection_is_passed_over(ends: Ends) -> None:
    async def echo(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    ends.handler = echo
    with socket.socket() as bound:
        bound.bind((LOOPBACK, 0))  # and does not listen
        endpoints = Endpoints((bound.getsockname()[1], ends.behind))
        async with ingress([IngressRoute(HOST, "/", "first-predictor", endpoints)], 0) as port:
            for _ in range(4):
                async with ends.session.post(f"http://{LOOPBACK}:{port}/", data=b"all of it") as answer:
                    assert (answer.status, await answer.read()) == (200, b"all of it")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "http://127.0.0.1:8080"}, 200),
        ({"Origin": "http://localhost:3000"}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://[::1"}, 403),
    ],
)
async def test_a_page_of_another_site_sends_nothing_by_this_machines_own_names(
    ends: Ends, headers: dict[str, str], status: int
) -> None:
    async def echo(request: web.Request) -> web.Response:
        return web.Response(text=request.raw_path)

    ends.handler = echo
    path = "/default/first"
    route = IngressRoute(LOOPBACK, path, "first-predictor", Endpoints((ends.behind,)), prefix=path)
    async with ingress([route], 0) as port, aiohttp.ClientSession(headers=headers) as session:
        async with session.post(f"http://{LOOPBACK}:{port}{path}/v1/models/m:predict", data=b"{}") as answer:
            assert answer.status == status
        link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        async with ends.session.get(f"http://{LOOPBACK}:{port}{path}/v1", headers={"Host": LOOPBACK, **link}) as answer:
            assert (answer.status, await answer.text()) == (200, "/v1")


async def test_only_predictions_are_told_of_with_the_time_that_they_took(ends: Ends) -> None:
    async def wait(request: web.Request) -> web.Response:
        await asyncio.sleep(0.1)
        return web.Response(status=500 if request.path.startswith("/v1/models/broken") else 200)

    ends.handler = wait
    told: list[tuple[str, float]] = []
    route = IngressRoute(HOST, "/", "first-predictor", Endpoints((ends.behind,)))
    async with ingress([route], 0, lambda route, seconds: told.append((route.service, seconds))) as port:
        for path in ("/v2/models/m/load", "/v1/models/broken:predict", "/v2/models/m/infer"):
            async with ends.session.post(f"http://{LOOPBACK}:{port}{path}", data=b"{}") as answer:
                await answer.read()

    ((service, seconds),) = told
    assert (service, 0.1 <= seconds < 5) == ("first-predictor", True)


async def test_a_port_in_use_is_refused_with_the_flag_to_change_it() -> None:
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(RunFailed, match=f"port {port} is in use; choose another one: --http-port {port + 1}"):
            async with ingress([], port):
                pass


# --- what only raw bytes can show ------------------------------------------------------------------------


async def talk(ends: Ends, sent: bytes) -> bytes:
    """Everything that the ingress responds to ``sent``, until it closes the connection."""
    reader, writer = await asyncio.open_connection(LOOPBACK, int(ends.url.rpartition(":")[2]))
    writer.write(sent)
    try:
        return await reader.read()
    finally:
        writer.close()


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ")[1])


def as_sent(line: str, *fields: str, body: bytes = b"") -> bytes:
    """A request to our host that closes the connection after the response."""
    return "\r\n".join((line, f"Host: {HOST}", "Connection: close", *fields, "", "")).encode() + body


async def echo_raw(request: web.Request) -> web.Response:
    """The request as the server behind got it: its target, its header fields in order, and its body's length."""
    fields = [f"{name}: {value}" for name, value in request.headers.items()]
    return web.json_response([request.raw_path, fields, len(await request.read())])


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


async def test_a_compressed_body_in_chunks_arrives_as_it_was_sent(ends: Ends) -> None:
    body = gzip.compress(bytes(range(256)) * 1000)

    async def parts() -> AsyncIterator[bytes]:
        yield body[:100]
        yield body[100:]

    async def keep(request: web.Request) -> web.Response:
        return web.json_response([await request.read() == body, "Content-Length" in request.headers])

    ends.handler = keep
    async with ends.session.post(ends.url, data=parts(), headers={"Content-Encoding": "gzip"}) as answer:
        assert await answer.json() == [True, False]


async def test_a_compressed_response_is_passed_on_unchanged(ends: Ends) -> None:
    body = gzip.compress(b"0" * 1_000_000)

    async def zipped(request: web.Request) -> web.Response:
        return web.Response(body=body, headers={"Content-Encoding": "gzip"})

    ends.handler = zipped
    async with ends.session.get(ends.url, headers={"Accept-Encoding": "gzip"}) as answer:
        assert answer.headers["Content-Length"] == str(len(body))
        assert await answer.read() == body


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
    "fields",
    [
        ("Content-Length: 3", "Transfer-Encoding: chunked"),
        ("Content-Length: 3", "Content-Length: 4"),
        ("Content-Length: +3",),
        ("Transfer-Encoding: chunked, identity",),
        ("Transfer-Encoding: xchunked",),
        ("Host: second.default.example.com",),
        ("X-Own : 1",),
        (" X-Folded: 1",),
    ],
)
async def test_a_head_that_can_be_read_in_two_ways_is_refused(ends: Ends, fields: tuple[str, ...]) -> None:
    ends.handler = echo_raw

    answer = await talk(ends, as_sent("POST / HTTP/1.1", *fields, body=b"0\r\n\r\n"))

    assert status_of(answer) == 400


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


async def test_a_broken_chunk_is_a_client_error(ends: Ends) -> None:
    ends.handler = echo_raw

    answer = await talk(ends, as_sent("POST / HTTP/1.1", "Transfer-Encoding: chunked", body=b"3\r\nabc\r\nzz\r\n"))

    assert status_of(answer) == 400


# --- bounds ----------------------------------------------------------------------------------------------


async def test_a_body_that_stops_gets_408(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "INGRESS_IDLE_SECONDS", 0.05)
    ends.handler = echo_raw

    answer = await talk(ends, as_sent("POST / HTTP/1.1", "Content-Length: 9", body=b"abc"))

    assert answer.startswith(b"HTTP/1.1 408")
    assert answer.endswith(b'{"error": "no more of the body was received for 0.05 s; send it without pauses"}')


async def test_a_head_that_never_ends_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "INGRESS_IDLE_SECONDS", 0.05)
    async with ingress([], 0) as port:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n")
        assert await reader.read() == b""
        writer.close()


@pytest.mark.parametrize(
    "request_",
    [
        as_sent("GET /" + "x" * 10_000 + " HTTP/1.1"),
        as_sent("GET / HTTP/1.1", "X-Long: " + "x" * 10_000),
        as_sent("GET / HTTP/1.1", *(f"X-{number}: 1" for number in range(200))),
    ],
    ids=["line", "field", "fields"],
)
async def test_a_head_beyond_the_limits_is_refused(ends: Ends, request_: bytes) -> None:
    ends.handler = echo_raw

    assert status_of(await talk(ends, request_)) == 400


async def test_a_client_beyond_the_limit_gets_503_and_the_others_continue(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "INGRESS_CONNECTIONS", 2)
    under_way, go_on = asyncio.Semaphore(0), asyncio.Event()

    async def wait(request: web.Request) -> web.Response:
        under_way.release()
        await go_on.wait()
        return web.Response()

    ends.handler = wait
    others = [asyncio.create_task(talk(ends, as_sent("GET / HTTP/1.1"))) for _ in range(2)]
    for _ in others:
        await under_way.acquire()

    refused = await talk(ends, b"")
    go_on.set()

    assert refused.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert refused.endswith(b'{"error": "2 connections are open, and no more are accepted; close some"}')
    assert [status_of(await other) for other in others] == [200, 200]


async def test_a_further_connection_replaces_the_one_that_is_idle_for_longest(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "INGRESS_CONNECTIONS", 2)
    ends.handler = echo_raw
    port = int(ends.url.rpartition(":")[2])
    (first, to_first), (second, to_second) = [await asyncio.open_connection(LOOPBACK, port) for _ in range(2)]
    for reader, writer in ((second, to_second), (first, to_first)):  # the second is now without one for longer
        writer.write(f"GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        await reader.readuntil(b", 0]")

    third = await talk(ends, as_sent("GET / HTTP/1.1"))
    of_second = await second.read()
    to_first.write(as_sent("GET / HTTP/1.1"))
    of_first = await first.read()
    for writer in (to_first, to_second):
        writer.close()

    assert (status_of(third), of_second, status_of(of_first)) == (200, b"", 200)


async def test_a_connection_whose_client_does_not_read_is_aborted(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "INGRESS_UNREAD_SECONDS", 0.2)
    ended = asyncio.Event()

    async def pour(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(bytes(1 << 20))
        finally:
            ended.set()

    ends.handler = pour
    async with ingress([IngressRoute(HOST, "/", "first-predictor", Endpoints((ends.behind,)))], 0) as port:
        _, writer = await asyncio.open_connection(LOOPBACK, port, limit=1024)
        writer.write(as_sent("GET / HTTP/1.1"))
        async with asyncio.timeout(30):
            await ended.wait()
        writer.close()


async def test_what_a_refusal_quotes_is_short(ends: Ends) -> None:
    async with ends.session.get(ends.url, headers={"Host": "x" * 5000}) as answer:
        assert answer.status == 404
        assert len(await answer.read()) < 400


async def test_what_a_refusal_quotes_is_text(ends: Ends) -> None:
    answer = await talk(ends, as_sent("GET / HTTP/1.1").replace(b"first", b"\xff\xe2\x80\xae"))

    assert status_of(answer) == 404
    assert answer.rpartition(b"\r\n")[2].isascii()
