"""The dashboard can be read and operated by all, and shows texts from outside as texts, in Chromium."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from isvc.dashboard.server import dashboard
from isvc.view.source import ServiceResponse
from tests.e2e.browser.axe import findings
from tests.e2e.browser.conftest import Open
from tests.e2e.browser.services import PATH, SERVICES, TAB_PATHS, classify, respond
from tests.support.fake_services import TRACEBACK, FakeServices
from tests.support.fake_source import FakeSource

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAMES = ["customer-churn-prediction-gradient-boosting-v2-eu-west", "resnet"]


MARKUP = (
    "</td></pre><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    "<hx-partial hx-target=body>"
)
HOSTILE = f"{MARKUP}\x1b[31m\u202e"


async def test_texts_from_outside_are_texts_wherever_they_are_shown(open_page: Open, source: FakeSource) -> None:
    played = FakeServices(
        name=MARKUP, namespace="<b>", labels={HOSTILE: HOSTILE}, annotations={HOSTILE: HOSTILE}, uri=HOSTILE
    )
    path = "/services/%3Cb%3E/" + "".join(f"%{byte:02X}" for byte in MARKUP.encode())
    failed = played.failed(log=HOSTILE)
    failed = replace(failed, events=[*failed.events, played.event(130, HOSTILE, HOSTILE, warning=True)])
    source.put(failed)
    source.write(played.pod_name, "kserve-container", HOSTILE)
    source.respond = lambda request: (
        ServiceResponse(status=200, headers={}, body=json.dumps({"models": [HOSTILE]}).encode(), seconds=0.1)
        if request.method == "GET"
        else ServiceResponse(
            status=200, headers={"X": HOSTILE, "Server-Timing": HOSTILE}, body=HOSTILE.encode(), seconds=0.1
        )
    )
    for tab in TAB_PATHS:
        page = await open_page(path + tab)
        await expect(page.locator("#connection")).to_have_text("Live")
        source.put(played.loading(10))
        source.put(failed)
        await _is_inert(page)
        if tab == "/timeline":
            await expect(page.locator(".history .from-event b").last).to_contain_text("<script>")
            await expect(page.locator(".history .from-event p").last).to_contain_text("<script>")
        if tab == "/logs":
            await expect(page.locator("#lines div")).to_contain_text("<hx-partial hx-target=body>\\x1b[31m")
            await page.get_by_role("searchbox").fill("<script>")
            await expect(page.locator("#lines mark")).to_have_text("<script>")
        if tab == "/request":
            await page.get_by_role("button", name="Send").click()
            await expect(page.get_by_label("Body of the response")).to_contain_text("</script>")
        await _is_inert(page)
    page = await open_page()
    await expect(page.get_by_role("row").last).to_contain_text("<script>")
    await _is_inert(page)


async def _is_inert(page: Page) -> None:
    assert await page.title() != "owned"
    assert await page.evaluate("document.querySelectorAll('script:not([src]), img, hx-partial, b b').length") == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
async def test_axe_finds_nothing(open_page: Open, source: FakeSource, scheme: Any, width: int) -> None:
    source.put(SERVICES.failed(), FakeServices(name="mnist").loading(40), FakeServices(name="resnet").ready())
    source.put(*(getattr(FakeServices(name=state), state)() for state in ("rolling", "unprocessed", "stopped")))
    source.write(SERVICES.pod_name, "kserve-container", "DEBUG a", "INFO b", "WARNING c", "ERROR d")
    source.respond = classify
    options = {"color_scheme": scheme, "viewport": {"width": width, "height": 800}, "bypass_csp": True}
    page = await open_page("/", **options)
    found = {"/": await findings(page)}
    await page.keyboard.press("?")
    found["?"] = await findings(page)
    for tab in TAB_PATHS:
        await page.goto(page.url.split("/services")[0].rstrip("/") + PATH + tab)
        if tab == "/request":
            await page.get_by_role("button", name="Send").click()
            await expect(page.locator("#response")).to_contain_text("200 in")
        found[tab] = await findings(page)

    assert {tab: items for tab, items in found.items() if items} == {}


# Words of letters alone: names with hyphens, digits or dots may go on in the next line.
BROKEN_WORDS = """() => {
  const broken = [];
  const texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode;
    if (text.parentElement.closest("pre, code, textarea, select, .lines, .unseen, [hidden]")) continue;
    for (const word of text.data.matchAll(/(?<![^\\s])[A-Za-z]+(?![^\\s.,:;])/g)) {
      const range = document.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1) broken.push(word[0]);
    }
  }
  return broken;
}"""


@pytest.mark.parametrize("tab", [None, *TAB_PATHS])
@pytest.mark.parametrize("width", [1440, 1024, 390])
async def test_no_page_is_wider_than_the_screen_and_no_word_is_broken(
    open_page: Open, source: FakeSource, tab: str | None, width: int
) -> None:
    source.put(SERVICES.failed(TRACEBACK), *(FakeServices(name=name, labels={name: name}).rolling() for name in NAMES))
    source.put(FakeServices(name="new").unprocessed(), FakeServices(name="old").stopped())
    source.respond = respond
    size = {"width": width, "height": 740}
    paths = ["/"] if tab is None else [PATH + tab, f"/services/models/{NAMES[0]}{tab}"]
    for path in paths:
        page = await open_page(path, viewport=size)
        await expect(page.locator("#connection")).to_have_text("Live")
        assert await page.evaluate("document.documentElement.scrollWidth") <= width
        assert await page.evaluate(BROKEN_WORDS) == []


async def test_the_address_can_be_opened_from_a_page_of_another_origin(
    browser: Browser, source: FakeSource, tmp_path: Path
) -> None:
    async with dashboard(source, port=0, token="t", where="here") as address:
        link = tmp_path / "terminal.html"
        link.write_text(f'<a href="{address}">open</a>')
        page = await browser.new_page()
        await page.goto(link.as_uri())
        await page.get_by_text("open").click()
        await expect(page.get_by_role("heading", name="Services")).to_be_visible()
        await page.context.close()
