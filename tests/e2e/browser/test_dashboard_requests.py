"""Requests from the page of a service, its charts and its YAML, in Chromium."""

from __future__ import annotations

import io

import pytest
from PIL import Image
from playwright.async_api import Page, expect

from data_plane.server.metrics import ServerMetrics
from isvc.dashboard import scraping
from tests.e2e.browser.conftest import Open
from tests.e2e.browser.services import PATH, SERVICES, classify, respond
from tests.support.fake_source import FakeSource

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_request_is_sent_by_the_form_and_by_a_file_and_its_time_adds_up(
    open_page: Open, source: FakeSource
) -> None:
    source.put(SERVICES.ready())
    source.respond = respond
    page = await open_page(f"{PATH}/request")
    await expect(page.get_by_label("Model")).to_have_value("bert")

    await page.get_by_label("Body").focus()
    await page.keyboard.press("Control+Enter")
    response = page.locator("#response")
    await expect(response).to_contain_text("200 in 10 ms")
    await expect(page.get_by_label("Body of the response")).to_have_text('{ "predictions": [ 12 ] }')
    parts = await response.locator("[data-ms]").evaluate_all("all => all.map(one => Number(one.dataset.ms))")
    assert sum(parts) == pytest.approx(10)

    await page.get_by_label("Or a file").set_input_files(
        {"name": "digit.png", "mimeType": "image/png", "buffer": b"\x89PNG" * 100}
    )
    await page.get_by_role("button", name="Send").click()
    await expect(page.get_by_label("Body of the response")).to_have_text('{ "predictions": [ 536 ] }')

    await page.get_by_label("Protocol").select_option("v2")
    await expect(page.get_by_text("/v2/models/bert/infer")).to_be_visible()


async def test_a_body_stays_when_the_tab_changes(open_page: Open, source: FakeSource) -> None:
    source.put(SERVICES.ready())
    source.respond = respond
    page = await open_page(f"{PATH}/request")
    body = page.get_by_label("Body", exact=True)
    sample = await body.input_value()
    await body.fill('{"instances": [1]}')
    await page.get_by_role("link", name="Charts").click()
    await page.get_by_role("link", name="Request").click()
    await expect(body).to_have_value('{"instances": [1]}')

    await page.get_by_role("button", name="Back to the sample").click()
    await expect(body).to_have_value(sample)
    await page.reload()
    await expect(body).to_have_value(sample)


URL = "http://torchserve.models.example.com/v1/models/bert:predict"
CURL = (
    f"curl -X POST '{URL}' -H 'Content-Type: application/json'"
    """ -d '{"instances": [true, "it'\\''s"]}'"""
)
PYTHON = """\
import json
import urllib.request

body = {
  "instances": [
    True,
    "it's"
  ]
}
headers = {"Content-Type": "application/json"}
request = urllib.request.Request("URL", json.dumps(body).encode(), headers)
print(urllib.request.urlopen(request).read().decode())
""".replace("URL", URL)
CURL_OF_A_FILE = (
    """printf '{"instances": [{"data": "%s"}]}' "$(base64 < 'digit.png' | tr -d '\\n')" | """
    f"curl -X POST '{URL}' -H 'Content-Type: application/json' -d @-"
)


async def test_a_request_is_copied_as_a_command(open_page: Open, source: FakeSource) -> None:
    source.put(SERVICES.ready())
    source.respond = respond
    page = await open_page(f"{PATH}/request", permissions=["clipboard-read", "clipboard-write"])
    await page.get_by_label("Body", exact=True).fill('{"instances": [true, "it\'s"]}')

    assert await _copied(page, "Copy as curl") == CURL
    assert await _copied(page, "Copy as Python") == PYTHON
    await page.get_by_label("Or a file").set_input_files({"name": "digit.png", "mimeType": "image/png", "buffer": b"x"})
    assert await _copied(page, "Copy as curl") == CURL_OF_A_FILE


async def _copied(page: Page, name: str) -> str:
    button = page.get_by_role("button", name=name)
    await button.click()
    await expect(page.get_by_role("button", name="Copied")).to_be_visible()
    await expect(button).to_be_visible()
    return str(await page.evaluate("navigator.clipboard.readText()"))


async def test_an_image_is_shown_and_so_are_the_labels_of_the_response(open_page: Open, source: FakeSource) -> None:
    source.put(SERVICES.ready())
    source.respond = classify
    image = io.BytesIO()
    Image.new("RGB", (640, 480)).save(image, "png")
    page = await open_page(f"{PATH}/request")
    file = {"name": "kitten.png", "mimeType": "image/png", "buffer": image.getvalue()}
    await page.get_by_label("Or a file").set_input_files(file)
    await expect(page.get_by_role("img", name="The image")).to_be_visible()

    await page.get_by_role("button", name="Send").click()
    await expect(page.get_by_role("list", name="The likeliest classes").get_by_role("listitem")).to_have_text(
        ["tabby75.0 %", "lynx25.0 %"]
    )
    await page.get_by_label("Or a file").set_input_files([])
    await expect(page.get_by_role("img", name="The image")).to_be_hidden()


async def test_the_charts_are_drawn_and_go_on(
    open_page: Open, source: FakeSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scraping, "EVERY", 0.1)
    source.put(SERVICES.ready())
    metrics = ServerMetrics()

    def served_one_more() -> str:
        metrics.observe("POST", "/v1/models/{model}:predict", 200, 0.02)
        return metrics.exposition().decode()

    source.metrics_of[SERVICES.pod_name] = served_one_more
    page = await open_page(f"{PATH}/charts")
    await expect(page.locator("[data-now=latency]")).to_contain_text("18 ms · 24 ms · 25 ms")
    await expect(page.locator(".plot canvas")).to_have_count(5)


async def test_the_lines_of_the_charts_are_interrupted_where_nothing_was_read(
    open_page: Open, source: FakeSource
) -> None:
    source.put(SERVICES.ready())
    page = await open_page(f"{PATH}/charts")
    await expect(page.get_by_text("Nothing has been read from the pods yet.")).to_be_visible()

    await page.evaluate(
        "points.push(...[0, 5, 300, 305, 310].map((at) => ({ at: 1e9 + at, rate: 2, p50: at === 305 ? 0.1 : null })))"
    )
    times, rates = await page.evaluate("data(plots[0].lines)")
    assert ([time - 1e9 for time in times], rates) == ([0, 5, 6, 300, 305, 310], [2, 2, None, 2, 2, 2])
    assert await page.evaluate("alone({ data: data(plots[1].lines) }, 1)") == [4]


async def test_the_form_comes_when_the_service_serves(open_page: Open, source: FakeSource) -> None:
    source.put(SERVICES.starting())
    page = await open_page(f"{PATH}/request")
    await expect(page.locator("#form")).to_contain_text("StartingServer")

    source.respond = respond
    source.put(SERVICES.ready())
    await expect(page.get_by_role("button", name="Send")).to_be_visible()


async def test_the_yaml_is_shown_as_applied_and_as_rendered(open_page: Open, source: FakeSource) -> None:
    source.put(SERVICES.ready())
    page = await open_page(f"{PATH}/yaml")

    await expect(page.get_by_label("YAML as applied")).to_contain_text("storageUri: pvc://leeway")
    await expect(page.get_by_label("YAML of the status")).to_contain_text("type: Ready")
    await expect(page.get_by_role("region", name="Runtime")).to_contain_text("isvc-mar of this machine")
    await page.get_by_text("Deployment torchserve-predictor").click()
    await expect(page.get_by_label("YAML of Deployment torchserve-predictor")).to_contain_text(
        "--model-dir=/mnt/models"
    )
