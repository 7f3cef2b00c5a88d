"""Who gets an answer: not another user, not a foreign page, not another host."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
from yarl import URL

from isvc import limits
from isvc.dashboard.errors import DashboardFailed
from isvc.dashboard.guard import HEADERS
from isvc.dashboard.server import dashboard
from tests.support.fake_services import FakeServices
from tests.support.fake_source import FakeSource

PATHS = ("/", "/events", "/services/models/torchserve", "/services/models/torchserve/log", "/nothing")
SEND = "/services/models/torchserve/request"


@pytest.fixture
def source() -> FakeSource:
    return FakeSource(FakeServices().ready())


@pytest.mark.parametrize("path", PATHS)
async def test_without_the_token_nothing_is_shown(stranger: aiohttp.ClientSession, path: str) -> None:
    async with stranger.get(path) as response:
        assert response.status == 403
        assert "the address that was printed" in await response.text()


async def test_a_wrong_token_is_refused(stranger: aiohttp.ClientSession) -> None:
    async with stranger.get("/", params={"token": "wrong"}) as response:
        assert response.status == 403
        assert not response.cookies


async def test_the_token_becomes_a_cookie_that_no_script_reads(stranger: aiohttp.ClientSession, url: URL) -> None:
    async with stranger.get("/", params={"token": "correct-token"}, allow_redirects=False) as response:
        (cookie,) = response.cookies.values()
        assert (response.status, response.headers["Location"]) == (303, "/")
        assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "Lax", "/")
        assert str(url.port) in cookie.key
        assert "correct-token" not in cookie.value  # other ports of the host get it, too


async def test_the_token_is_no_cookie(stranger: aiohttp.ClientSession, url: URL) -> None:
    async with stranger.get("/", headers={"Cookie": f"isvc-dashboard-{url.port}=correct-token"}) as response:
        assert response.status == 403


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8081", "127.0.0.1", "127.0.0.1.evil.example:{port}"])
async def test_a_name_that_was_made_to_resolve_to_loopback_is_refused(
    viewer: aiohttp.ClientSession, url: URL, host: str
) -> None:
    async with viewer.get("/", headers={"Host": host.format(port=url.port)}) as response:
        assert response.status == 421


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
async def test_the_names_of_loopback_are_answered(viewer: aiohttp.ClientSession, url: URL, name: str) -> None:
    async with viewer.get("/", headers={"Host": f"{name}:{url.port}"}) as response:
        assert response.status == 200


@pytest.mark.parametrize(
    "origin", [None, "null", "http://evil.example", "http://127.0.0.1:1", "https://127.0.0.1:{port}"]
)
async def test_a_form_of_a_foreign_page_is_refused(
    viewer: aiohttp.ClientSession, source: FakeSource, url: URL, origin: str | None
) -> None:
    headers = {} if origin is None else {"Origin": origin.format(port=url.port)}
    async with viewer.post(SEND, headers=headers, data={"body": "{}"}) as response:
        assert response.status == 403
    assert source.requests == []


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_foreign_page_does_not_read_a_stream(viewer: aiohttp.ClientSession, site: str) -> None:
    async with viewer.get("/events", headers={"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "cors"}) as response:
        assert response.status == 403


@pytest.mark.parametrize("path", [*PATHS, "/assets/app.js", "/assets/../server.py", "/assets/packages.json"])
async def test_every_response_says_what_a_page_may_load(stranger: aiohttp.ClientSession, path: str) -> None:
    async with stranger.get(URL(path, encoded=True)) as response:
        assert {name: response.headers.get(name) for name in HEADERS} == HEADERS
        assert "unsafe" not in response.headers["Content-Security-Policy"]


@pytest.mark.parametrize("name", ["nothing.js", "packages.json", "..%2Fserver.py", "digests.json"])
async def test_no_other_file_is_served(stranger: aiohttp.ClientSession, name: str) -> None:
    async with stranger.get(URL(f"/assets/{name}", encoded=True)) as response:
        assert response.status == 404


async def test_a_page_that_does_not_exist_says_so_once(viewer: aiohttp.ClientSession) -> None:
    async with viewer.get("/foo") as response:
        text = await response.text()

    assert (response.status, text.lower().count("not found")) == (404, 1)
    assert "<p>there is no such page</p>" in text


async def test_a_file_that_the_browser_has_is_not_sent_again(stranger: aiohttp.ClientSession) -> None:
    async with stranger.get("/assets/app.css") as response:
        tag = response.headers["ETag"]
    async with stranger.get("/assets/app.css", headers={"If-None-Match": tag}) as response:
        assert (response.status, await response.read()) == (304, b"")


async def test_an_idle_connection_is_closed(source: FakeSource, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DASHBOARD_IDLE_SECONDS", 0.05)
    async with dashboard(source, port=0, token="t", where="here") as address:
        url = URL(address)
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(f"GET /assets/app.js HTTP/1.1\r\nHost: {url.authority}\r\n\r\n".encode())

        assert (await reader.read()).startswith(b"HTTP/1.1 200")  # the response, then the end
        writer.close()
        await writer.wait_closed()


async def test_a_port_that_is_in_use_is_named(url: URL, source: FakeSource) -> None:
    with pytest.raises(DashboardFailed, match=f"port {url.port} is in use; choose another one"):
        async with dashboard(source, port=url.port or 0, token="t", where="here"):
            raise AssertionError
