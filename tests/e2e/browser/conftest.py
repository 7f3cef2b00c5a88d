"""One Chromium for the tests of a file, and the dashboard of a source that a test plays, seen in it.

Whatever a test does: a page that asks another host for something, or writes an error to its console, fails it.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright, expect

from isvc.dashboard.server import dashboard
from tests.support.fake_source import FakeSource

HERE = Path(__file__).parent
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--force-prefers-reduced-motion")
TOKEN = "token-of-the-test"
CLONE_NEWNET = 0x40000000  # of <sched.h>; Python has os.unshare from 3.12 on
Open = Callable[..., Awaitable[Page]]

expect.set_options(timeout=15_000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.process)


@pytest.fixture(scope="module", autouse=True)
def own_network() -> Iterator[None]:
    """A network with nothing but loopback, for this thread and what it starts; without root, the machine's.

    Chromium ends its requests (ERR_NETWORK_CHANGED) when an interface of the machine gets an address, as those of
    the pods do that other tests start at the same time.
    """
    _program()  # its download needs the machine's network
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/proc/thread-self/ns/net").open("rb") as machine:
        if libc.unshare(CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        try:
            subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
            yield
        finally:
            if libc.setns(machine.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")


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
            page.on("console", lambda said: wrong.extend([said.text] if _is_wrong(said) else []))
            await page.goto(address)
            await page.goto(address.split("/?")[0] + path)
            return page

        yield opened
        assert wrong == []


def _is_wrong(said: ConsoleMessage) -> bool:
    """Whether a message is of the page: Chromium also says that a pod's network has come or gone on this machine."""
    return said.type in ("error", "warning") and "net::ERR_NETWORK_CHANGED" not in said.text


def _foreign(url: str, address: str) -> list[str]:
    return [] if urlsplit(url).netloc == urlsplit(address).netloc else [f"request to {url}"]
