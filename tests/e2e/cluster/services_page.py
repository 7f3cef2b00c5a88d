"""`isvc dashboard`'s page of a namespace's services, open in Chromium before any of them fails."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from anyio.from_thread import BlockingPortal, start_blocking_portal
from playwright.async_api import Page, expect

from isvc.api_server import connect
from isvc.dashboard.server import dashboard
from isvc.source.source import cluster_source
from tests.e2e.browser.conftest import Open, chromium, visits
from tests.support.namespace import Namespace

WITHIN = 30_000.0  # milliseconds


@dataclass(frozen=True)
class ServicesPage:
    """The page, in the event loop of a thread; ``table`` is never loaded again."""

    namespace: Namespace
    portal: BlockingPortal
    open_page: Open
    table: Page

    def shows(self, name: str, reason: str, *words: str) -> None:
        """Wait until the row of a service has the reason or the stage, and see these words of it on its own page."""
        self.portal.call(self._shows, name, reason, words)

    async def _shows(self, name: str, reason: str, words: tuple[str, ...]) -> None:
        row = self.table.get_by_role("row").filter(has=self.table.get_by_role("link", name=name, exact=True))
        await expect(row).to_contain_text(reason, timeout=WITHIN)
        page = await self.open_page(f"/services/{self.namespace.name}/{name}")
        for word in (reason, *words):
            await expect(page.locator(".cause").first).to_contain_text(word, timeout=WITHIN)
        await page.context.close()


@contextlib.contextmanager
def services_page(namespace: Namespace) -> Iterator[ServicesPage]:
    """The page for the tests of a file."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(_opened(namespace)) as (open_page, table),
    ):
        yield ServicesPage(namespace, portal, open_page, table)


@contextlib.asynccontextmanager
async def _opened(namespace: Namespace) -> AsyncIterator[tuple[Open, Page]]:
    async with (
        connect(str(namespace.server.kubeconfig)) as api,
        cluster_source(api, (namespace.name,), for_pages=True) as source,
        dashboard(source, port=0, token="t", where="a test") as address,
        chromium() as browser,
        visits(browser, address) as open_page,
    ):
        yield open_page, await open_page()
