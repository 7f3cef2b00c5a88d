"""What axe finds on a page: barriers for people who do not see, or do not use a mouse."""

from __future__ import annotations

from pathlib import Path

import axe_playwright_python
from playwright.async_api import Page, expect

_AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text()


async def findings(page: Page) -> list[str]:
    """The violations on a page, once it is live if it is one that changes; its context has ``bypass_csp``."""
    if await page.locator("#connection").count():
        await expect(page.locator("#connection")).to_have_text("Live")
    await page.evaluate(_AXE)
    found = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{item['id']}: {node['html']} {node['failureSummary']}"
        for item in found["violations"]
        for node in item["nodes"]
    ]
