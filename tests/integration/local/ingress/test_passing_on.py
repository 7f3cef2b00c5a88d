"""Requests reach the server as they were sent, and its responses reach the client."""

from __future__ import annotations

import asyncio
import io
import socket

import aiohttp
import pytest
from aiohttp import web
from multidict import CIMultiDict

from isvc.run.container import LOOPBACK
from isvc.run.endpoints import Endpoints
from isvc.run.ingress import ingress
from isvc.run.routes import IngressRoute
from tests.integration.local.ingress.ends import HOST, Ends


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
        async with ends.session.get(f"{url}/predictions/pets", headers=headers) as answer:
            assert await answer.json() == {
                "error": "no service has the path '/predictions/pets' on host 'shared.example.com'; "
                "available: shared.example.com/of/first; try http://shared.example.com/of/first/predictions/pets"
            }


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


async def test_only_predictions_that_are_answered_are_told_of_with_the_time_that_they_took(ends: Ends) -> None:
    async def wait(request: web.Request) -> web.Response:
        await asyncio.sleep(0.1)
        return web.Response(status=500 if request.query else 200)

    ends.handler = wait
    told: list[tuple[str, float]] = []
    route = IngressRoute(HOST, "/", "first-predictor", Endpoints((ends.behind,)))
    async with ingress([route], 0, lambda route, seconds: told.append((route.service, seconds))) as port:
        for method, path in (
            ("OPTIONS", "/predictions/m"),
            ("POST", "/v2/models/m/load"),
            ("POST", "/predictions/m?fails=1"),
            ("PUT", "/predictions/m"),  # as curl -T sends it
            ("POST", "/v2/models/m/infer"),
        ):
            async with ends.session.request(method, f"http://{LOOPBACK}:{port}{path}"):
                pass

    assert [service for service, _ in told] == ["first-predictor"] * 2
    assert all(0.1 <= seconds < 5 for _, seconds in told)


async def test_the_page_of_a_server_is_told_where_the_dashboard_is(ends: Ends) -> None:
    async def echo(request: web.Request) -> web.Response:
        return web.json_response(request.headers.getall("x-isvc-dashboard", []))

    ends.handler = echo
    route, own = IngressRoute(HOST, "/", "first-predictor", Endpoints((ends.behind,))), "http://127.0.0.1:1/"
    told = {}
    async with ingress([route], 0, dashboard=lambda: own) as port:
        for path in ("/", "/docs", "/v1/models"):
            headers = {"x-isvc-dashboard": "http://127.0.0.1:2/"}
            async with ends.session.get(f"http://{LOOPBACK}:{port}{path}", headers=headers) as answer:
                told[path] = await answer.json()

    assert told == {"/": [own], "/docs": [own], "/v1/models": ["http://127.0.0.1:2/"]}
