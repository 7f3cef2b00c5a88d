"""One Chromium for the tests of a file, and the dashboard of a source that a test plays, seen in it.

Whatever a test does: a page that asks another host for something, or writes an error to its console, fails it.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright, expect

from isvc.dashboard.server import dashboard
from tests.support.fake_source import FakeSource

HERE = Path(__file__).parent
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--force-prefers-reduced-motion")
TOKEN = "token-of-the-test"
Open = Callable[..., Awaitable[Page]]

expect.set_options(timeout=15_000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.process)


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """A Chromium, downloaded first if it is not there."""
    async with async_playwright() as playwright:
        program = await asyncio.to_thread(_program)
        browser = await playwright.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            await browser.close()


def _program() -> str:
    done = subprocess.run(["bash", HERE / "chromium"], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def source() -> FakeSource:
    return FakeSource()


@pytest_asyncio.fixture(loop_scope="module")
async def open_page(browser: Browser, source: FakeSource) -> AsyncIterator[Open]:
    """Opens a page of the dashboard by its path; options are those of a context of Playwright."""
    async with (
        dashboard(source, port=0, token=TOKEN, where="this machine") as address,
        visits(browser, address) as opened,
    ):
        yield opened


@asynccontextmanager
async def visits(browser: Browser, address: str) -> AsyncIterator[Open]:
    """Open pages of the dashboard at an address; afterwards none has asked another host, or written an error."""
    async with AsyncExitStack() as stack:
        wrong: list[str] = []

        async def opened(path: str = "/", **options: Any) -> Page:
            context = await browser.new_context(**options)
            stack.push_async_callback(context.close)
            page = await context.new_page()
            page.on("request", lambda request: wrong.extend(_foreign(request.url, address)))
            page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
            page.on("console", lambda said: wrong.extend([said.text] if said.type in ("error", "warning") else []))
            await page.goto(address)
            await page.goto(address.split("/?")[0] + path)
            return page

        yield opened
        assert wrong == []


def _foreign(url: str, address: str) -> list[str]:
    return [] if urlsplit(url).netloc == urlsplit(address).netloc else [f"request to {url}"]
