"""A dashboard of a source that the test changes, and clients of it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable

import aiohttp
import pytest
from yarl import URL

from isvc.dashboard.server import dashboard
from tests.support.fake_source import FakeSource

TOKEN = "correct-token"


@pytest.fixture
def source() -> FakeSource:
    return FakeSource()


@pytest.fixture
async def url(source: FakeSource) -> AsyncIterator[URL]:
    """The address of the dashboard, without the token."""
    async with dashboard(source, port=0, token=TOKEN, where="here") as address:
        yield URL(address).with_query(None)


@pytest.fixture
async def stranger(url: URL) -> AsyncIterator[aiohttp.ClientSession]:
    """A client without a token."""
    async with aiohttp.ClientSession(url, cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        yield session


@pytest.fixture
async def viewer(url: URL) -> AsyncIterator[aiohttp.ClientSession]:
    """A client who has opened the address with the token."""
    async with aiohttp.ClientSession(url, cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        async with session.get("/", params={"token": TOKEN}) as response:
            assert (response.status, response.url) == (200, url)
        yield session


@pytest.fixture
def events() -> Callable[[aiohttp.ClientResponse], AsyncIterator[tuple[str, str]]]:
    """Reads the events of a stream: the name and the data of each."""
    return read_events


def without_colors(html: str) -> str:
    """YAML or JSON as it is written."""
    return re.sub('<span class="of-[a-z]+">([^<]*)</span>', r"\1", html)


async def read_events(response: aiohttp.ClientResponse) -> AsyncIterator[tuple[str, str]]:
    name, data = "", list[str]()
    async for raw in response.content:
        line = raw.decode().rstrip("\n")
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)
        elif not line and data:
            yield name, "\n".join(data)
            name, data = "", []
