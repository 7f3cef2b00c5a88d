"""A dashboard that several people open: each signs in with a token, and sees what that token may see."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import aiohttp
import pytest
from yarl import URL

from isvc import limits
from isvc.dashboard.access import Viewer
from isvc.dashboard.errors import NotSignedIn
from isvc.dashboard.server import shared_dashboard
from isvc.dashboard.tabs import TABS
from isvc.view.source import LOG, Reachable, Shown
from isvc_operator.manifests import ServiceKey
from tests.support.fake_services import FakeServices
from tests.support.fake_source import FakeSource
from tests.support.ports import unbound_port

ANN, BOB = "ann.token-1", "bob.token_2"
POD = FakeServices().pod_name
PAGES = ("/", "/services/models/torchserve", "/services/models/torchserve/yaml", "/nothing")


@dataclass
class FakePerson:
    """Implements Viewer."""

    name: str
    reach: Reachable
    namespaces: set[str]
    unseen: frozenset[Shown] = frozenset()

    def may_see(self, key: ServiceKey) -> bool:
        return key.namespace in self.namespaces

    def hidden(self, _key: ServiceKey) -> frozenset[Shown]:
        return self.unseen

    def notes(self) -> Sequence[str]:
        return [f"you may not see {kind}s" for kind in sorted(self.unseen)]


@dataclass
class FakePeople:
    """Implements People: the tokens that are valid at this moment."""

    by_token: dict[str, FakePerson] = field(default_factory=dict)

    async def person(self, token: str) -> Viewer:
        if token not in self.by_token:
            raise NotSignedIn("the token has expired")
        return self.by_token[token]


@pytest.fixture
def source() -> FakeSource:
    return FakeSource(FakeServices().ready(), FakeServices(namespace="other").ready())


@pytest.fixture
def people(source: FakeSource) -> FakePeople:
    ann = FakePerson("ann", source, {"models", "other"})
    bob = FakePerson("bob", source, {"other"}, unseen=frozenset({"Pod", "Deployment"}))
    return FakePeople({ANN: ann, BOB: bob})


@pytest.fixture
async def url(source: FakeSource, people: FakePeople) -> AsyncIterator[URL]:
    """Where the dashboard is; it is also opened by HTTPS at another name, through a proxy."""
    port = unbound_port()
    origins = [f"http://127.0.0.1:{port}"]
    async with shared_dashboard(source, people, port=port, origins=origins, where="a cluster"):
        yield URL(origins[0])


@pytest.fixture
async def browser(url: URL) -> AsyncIterator[aiohttp.ClientSession]:
    async with a_browser(url) as session:
        yield session


def a_browser(url: URL) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        url, cookie_jar=aiohttp.CookieJar(unsafe=True), headers={"Origin": str(url), "Sec-Fetch-Mode": "navigate"}
    )


async def signed_in(session: aiohttp.ClientSession, token: str) -> str:
    """Sign in, and return the page that follows."""
    async with session.post("/sign-in", data={"token": f" {token}\n"}) as response:
        assert (response.status, response.url.path) == (200, "/")
        return await response.text()


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_leads_to_the_form(browser: aiohttp.ClientSession, path: str) -> None:
    async with browser.get(path) as response:
        assert (response.status, response.url.path) == (200, "/sign-in")
        text = await response.text()
    assert "Token of the cluster" in text
    assert "torchserve" not in text


@pytest.mark.parametrize("tab", TABS)
async def test_no_tab_has_what_a_person_may_not_see(
    browser: aiohttp.ClientSession, people: FakePeople, tab: str
) -> None:
    people.by_token[BOB].unseen = frozenset({"Pod", "Deployment", "Event"})
    await signed_in(browser, BOB)

    async with browser.get(f"/services/other/torchserve/{tab}".rstrip("/")) as response:
        assert response.status == 200
        page = await response.text()

    assert [text for text in (POD, "kind: Deployment", "kind: Pod") if text in page] == []


@pytest.mark.parametrize("path", ["/events", "/services/models/torchserve/log", "/services/models/torchserve/sample"])
async def test_what_a_script_asks_for_is_refused(browser: aiohttp.ClientSession, path: str) -> None:
    async with browser.get(path, headers={"Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-origin"}) as response:
        assert (response.status, "sign in first" in await response.text()) == (401, True)


async def test_a_stream_has_only_what_the_person_may_see(url: URL, source: FakeSource) -> None:
    async with a_browser(url) as bob:
        await signed_in(bob, BOB)
        async with bob.get("/events") as response:
            async for line in response.content:
                if b"/services/other/torchserve" in line:
                    assert b"/services/models/" not in line
                    break
            source.put(FakeServices(name="secret").ready(), FakeServices(name="new", namespace="other").ready())
            async for line in response.content:
                assert b"secret" not in line
                if b"/services/other/new" in line:
                    break


@pytest.mark.parametrize(
    "token", ["", "wrong", "a b", "ann.token-1\nX: y", "x" * (limits.DASHBOARD_TOKEN_BYTES + 1), "ä"]
)
async def test_no_other_text_signs_in(browser: aiohttp.ClientSession, token: str) -> None:
    async with browser.post("/sign-in", data={"token": token}) as response:
        assert (response.status, response.cookies) == (401, {})
        assert 'role="alert"' in await response.text()


async def test_the_cookie_is_for_this_page_and_its_requests_only(browser: aiohttp.ClientSession, url: URL) -> None:
    async with browser.post("/sign-in", data={"token": ANN}, allow_redirects=False) as response:
        (cookie,) = response.cookies.values()
    assert ANN not in cookie.value
    assert (cookie.key, cookie["httponly"], cookie["samesite"], cookie["path"], cookie["secure"], cookie["domain"]) == (
        f"isvc-session-{url.port}", True, "Strict", "/", "", "",
    )  # fmt: skip


async def test_by_https_no_other_host_can_set_the_cookie(source: FakeSource, people: FakePeople) -> None:
    port, origin = unbound_port(), "https://dashboard.example.com"
    async with (
        shared_dashboard(source, people, port=port, origins=[origin], where="a cluster"),
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as proxy,
    ):
        headers = {"Host": "dashboard.example.com", "Origin": origin}
        async with proxy.post("/sign-in", data={"token": ANN}, headers=headers, allow_redirects=False) as response:
            (cookie,) = response.cookies.values()
        async with proxy.get("/", headers={"Authorization": f"Bearer {ANN}"}) as wrong_host:
            statuses = response.status, wrong_host.status

    assert (cookie.key, cookie["secure"], statuses) == ("__Host-isvc-session", True, (303, 421))


async def test_a_proxy_may_send_the_token(browser: aiohttp.ClientSession) -> None:
    answers = []
    for header in (f"Bearer {BOB}", f"bearer {BOB}", "Bearer wrong", "Bearer", f"Basic {BOB}"):
        async with browser.get("/", headers={"Authorization": header}, allow_redirects=False) as response:
            answers.append(response.status)
    assert answers == [200, 200, 303, 303, 303]


async def test_a_foreign_page_signs_nobody_in_or_out(browser: aiohttp.ClientSession) -> None:
    await signed_in(browser, ANN)
    for path in ("/sign-in", "/sign-out"):
        async with browser.post(path, data={"token": BOB}, headers={"Origin": "http://evil.example"}) as response:
            assert response.status == 403
    async with browser.get("/") as response:
        assert ">ann<" in await response.text()


async def test_who_signs_out_is_out(browser: aiohttp.ClientSession, url: URL) -> None:
    await signed_in(browser, ANN)
    kept = {cookie.key: cookie.value for cookie in browser.cookie_jar}
    async with browser.post("/sign-out") as response:
        assert response.url.path == "/sign-in"
    async with aiohttp.ClientSession(url, cookies=kept) as thief, thief.get("/", allow_redirects=False) as response:
        assert response.status == 303


async def test_a_session_ends(browser: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DASHBOARD_SESSION_SECONDS", 0.0)
    async with browser.post("/sign-in", data={"token": ANN}) as response:
        assert response.url.path == "/sign-in"


async def test_more_sessions_than_are_kept_end_the_first_ones(url: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DASHBOARD_PEOPLE", 1)
    async with a_browser(url) as ann, a_browser(url) as bob:
        await signed_in(ann, ANN)
        await signed_in(bob, BOB)
        async with ann.get("/") as first, bob.get("/") as second:
            assert [first.url.path, second.url.path] == ["/sign-in", "/"]


async def test_who_signs_in_again_and_again_signs_nobody_else_out(url: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DASHBOARD_PEOPLE", 3)
    monkeypatch.setattr(limits, "DASHBOARD_PERSON_SESSIONS", 2)
    async with a_browser(url) as bob, a_browser(url) as ann:
        await signed_in(bob, BOB)
        for _ in range(4):
            await signed_in(ann, ANN)
        async with bob.get("/") as first, ann.get("/") as second:
            assert [first.url.path, second.url.path] == ["/", "/"]


async def test_a_malformed_head_puts_no_token_into_the_log(url: URL, caplog: pytest.LogCaptureFixture) -> None:
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(f"GET / HTTP/1.1\r\nHost: {url.authority}\r\nAuthorization : Bearer {ANN}\r\n\r\n".encode())

    assert b" 400 " in await reader.readline()
    assert ANN not in caplog.text
    writer.close()
    await writer.wait_closed()


async def test_a_stream_ends_when_its_viewer_is_no_longer_known(
    browser: aiohttp.ClientSession, people: FakePeople, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "DASHBOARD_REVIEW_SECONDS", 0.01)
    await signed_in(browser, ANN)
    async with browser.get("/events") as response:
        await response.content.readline()
        del people.by_token[ANN]
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.content.read()
    async with browser.get("/") as response:
        assert response.url.path == "/sign-in"


async def test_a_probe_needs_no_name_and_says_nothing(url: URL) -> None:
    async with (
        aiohttp.ClientSession(url) as kubelet,
        kubelet.get("/healthz", headers={"Host": "10.0.0.7:8080"}) as found,
    ):
        assert (found.status, await found.read()) == (200, b"")


@pytest.mark.parametrize("lost", [LOG, "Pod"])
async def test_a_log_ends_when_its_viewer_may_read_it_no_longer(
    browser: aiohttp.ClientSession, people: FakePeople, monkeypatch: pytest.MonkeyPatch, lost: Shown
) -> None:
    monkeypatch.setattr(limits, "DASHBOARD_REVIEW_SECONDS", 0.01)
    await signed_in(browser, ANN)
    query = {"pod": POD, "container": "kserve-container"}
    async with browser.get("/services/models/torchserve/log", params=query) as response:
        assert response.status == 200
        people.by_token[ANN].unseen = frozenset({lost})
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.content.read()


async def test_one_person_leaves_streams_for_others(url: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DASHBOARD_PERSON_STREAMS", 1)
    async with a_browser(url) as ann, a_browser(url) as bob:
        await signed_in(ann, ANN)
        await signed_in(bob, BOB)
        async with ann.get("/events") as first, ann.get("/events") as second, bob.get("/events") as others:
            assert [response.status for response in (first, second, others)] == [200, 503, 200]
            assert "you have 1 pages open" in await second.text()
