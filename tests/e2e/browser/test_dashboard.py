"""What people see of the dashboard in Chromium: it follows what happens, and can be read and operated by all."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from data_plane.server.metrics import ServerMetrics
from isvc.dashboard import scraping
from isvc.dashboard.pages import TABS
from isvc.dashboard.server import dashboard
from isvc.view.source import ServiceRequest, ServiceResponse
from isvc_operator.manifests import ServiceKey
from tests.e2e.browser.axe import findings
from tests.e2e.browser.conftest import Open
from tests.support.fake_services import FakeServices
from tests.support.fake_source import FakeSource

pytestmark = pytest.mark.asyncio(loop_scope="module")

PLAYED = FakeServices(began=datetime.now(UTC) - timedelta(seconds=60))
PATH = "/services/models/torchserve"
TAB_PATHS = [f"/{name}" if name else "" for name in TABS]
SHARES = {"transformer": 90, "canary": 10}
TIMING = "queue;dur=1.000, batch;dur=0.500, model;dur=6.000, transport;dur=0.500"


def respond(request: ServiceRequest) -> ServiceResponse:
    if request.path == "/v1/models":
        return ServiceResponse(status=200, headers={}, body=b'{"models": ["bert"]}', seconds=0.001)
    if request.method == "GET":
        return ServiceResponse(status=404, headers={}, body=b"{}", seconds=0.001)
    received = {"predictions": [len(json.loads(request.body)["instances"][0]["data"])]}
    return ServiceResponse(
        status=200, headers={"Server-Timing": TIMING}, body=json.dumps(received).encode(), seconds=0.01
    )


# --- it follows what happens ---------------------------------------------------------------------------------


async def test_a_service_is_followed_from_pending_to_ready_without_a_reload(
    open_page: Open, source: FakeSource
) -> None:
    source.put(PLAYED.pending())
    page = await open_page()
    row = page.get_by_role("row", name="torchserve")
    await page.evaluate("document.body.dataset.first = 'yes'")
    await expect(row).to_contain_text("Scheduling")

    source.put(PLAYED.loading(10))
    bar = row.get_by_role("progressbar", name="download")
    await expect(bar).to_have_attribute("value", "10")
    handle = await bar.element_handle()
    source.put(PLAYED.loading(80))
    await expect(bar).to_have_attribute("value", "80")
    await expect(row).to_contain_text("84.2 MiB/s · 3 s left")
    assert await bar.evaluate("(bar, first) => bar === first", handle)  # it moves, and is no new one

    source.put(PLAYED.ready())
    await expect(row).to_contain_text("Ready")
    await expect(row).to_contain_text("1/1")
    assert await page.evaluate("document.body.dataset.first") == "yes"


async def test_the_page_of_a_service_follows_it_and_says_so_to_a_screen_reader(
    open_page: Open, source: FakeSource
) -> None:
    source.put(PLAYED.loading(10))
    page = await open_page(PATH)
    await expect(page.get_by_role("progressbar")).to_have_attribute("value", "10")

    source.put(PLAYED.failed())
    failure = page.get_by_role("region", name="Why it is not ready").first
    await expect(failure).to_contain_text("Error(s) in loading state_dict for ConvNet")
    await expect(failure).to_contain_text("Fix")
    await expect(page.locator("#announced")).to_have_text("torchserve is Failed, ServerFailed")
    await expect(page.get_by_text("3 restarts")).to_be_visible()

    source.remove(ServiceKey("models", "torchserve"))
    await expect(page.get_by_text("This service was deleted")).to_be_visible()


async def test_a_service_that_comes_or_goes_is_listed_or_not(open_page: Open, source: FakeSource) -> None:
    source.put(PLAYED.ready())
    page = await open_page()
    await expect(page.get_by_role("status").first).to_have_text("Live")

    for name in ("zeta", "alpha", "beta"):
        source.services[ServiceKey("models", name)] = FakeServices(name=name).ready()
    source.put(FakeServices(name="mnist").pending())
    await expect(page.get_by_role("link", name="mnist")).to_be_visible()
    await expect(page.locator("#rows a")).to_have_text(["alpha", "beta", "mnist", "torchserve", "zeta"])
    source.remove(ServiceKey("models", "mnist"))
    await expect(page.get_by_role("link", name="mnist")).to_have_count(0)


async def test_the_way_of_a_request_and_the_time_line_are_drawn(open_page: Open, source: FakeSource) -> None:
    source.put(PLAYED.ready())
    page = await open_page(PATH)
    await expect(page.get_by_role("region", name="Request path").get_by_role("listitem")).to_have_text(
        ["from client", "Ingress torchserve.models.example.com", "predictor torchserve-predictor"]
    )

    await page.get_by_role("link", name="Timeline").click()
    await expect(page.get_by_text("ready after 34 s")).to_be_visible()
    await expect(page.locator(".slowest")).to_contain_text("storage-initializer copies the model 17 s")
    source.put(PLAYED.failed())
    await expect(page.get_by_text("Back-off restarting failed container")).to_be_visible()


async def test_the_shares_of_a_canary_and_its_transformer_are_on_the_way(open_page: Open, source: FakeSource) -> None:
    played = PLAYED.ready()
    spec = {**played.service["spec"], "transformer": {"containers": [{"name": "kserve-container", "image": "t"}]}}
    backends = [{"name": f"torchserve-{name}", "port": 80, "weight": weight} for name, weight in SHARES.items()]
    host = "torchserve.models.example.com"
    rule = {"matches": [{"path": {"type": "PathPrefix", "value": "/"}}], "backendRefs": backends}
    route = {"kind": "HTTPRoute", "metadata": {"name": "torchserve", "namespace": "models", "labels": {}}}
    route |= {"spec": {"hostnames": [host], "rules": [rule]}}
    children = [child for child in played.children if child["kind"] != "Ingress"]
    source.put(replace(played, service={**played.service, "spec": spec}, children=[*children, route]))
    page = await open_page(PATH)

    way = page.get_by_role("region", name="Request path")
    await expect(way.locator(".hop", has_text="torchserve-transformer").first).to_contain_text("90 %")
    await expect(way.locator(".hop", has_text="torchserve-canary")).to_contain_text("10 %")
    await expect(way.locator(".step").last).to_contain_text("torchserve-predictor")


async def test_the_page_says_when_it_is_not_live(open_page: Open, source: FakeSource) -> None:
    page = await open_page()
    await expect(page.locator("#connection")).to_have_text("Live")

    await page.evaluate(
        "document.querySelector('[hx-sse\\\\:connect]').dispatchEvent(new Event('htmx:sse:error', {bubbles: true}))"
    )
    await expect(page.locator("#connection")).to_have_text("Connection lost; trying again")


# --- it is searched and operated by keys ----------------------------------------------------------------------


async def test_services_are_searched_and_the_search_stays_when_they_change(open_page: Open, source: FakeSource) -> None:
    failing = FakeServices(name="mnist", namespace="vision")
    source.put(PLAYED.ready(), failing.failed(), FakeServices(name="resnet", namespace="vision").ready())
    page = await open_page()
    rows = page.locator("#rows tr:visible th")

    await page.keyboard.press("/")
    await page.keyboard.type("vision")
    await expect(rows).to_contain_text(["mnist", "resnet"])
    await page.get_by_role("button", name="failed").click()
    await expect(rows).to_contain_text(["mnist"])
    await expect(page.get_by_role("button", name="failed")).to_have_attribute("aria-pressed", "true")

    source.put(failing.ready())
    await expect(page.get_by_text("No service matches")).to_be_visible()
    await page.reload()
    await expect(page.get_by_role("searchbox")).to_have_value("vision")
    await page.get_by_role("button", name="Show all").click()
    await expect(rows).to_have_count(3)


async def test_services_are_opened_by_keys(open_page: Open, source: FakeSource) -> None:
    source.put(FakeServices(name="a").ready(), FakeServices(name="b").ready())
    page = await open_page()

    await page.keyboard.press("j")
    await page.keyboard.press("j")
    source.put(FakeServices(name="b").failed())
    await expect(page.get_by_role("row", name="b models")).to_contain_text("Failed")
    await page.keyboard.press("Enter")  # the focus is where it was, although the row is another
    await expect(page).to_have_url(re.compile("/services/models/b$"))


# --- logs ------------------------------------------------------------------------------------------------------


async def test_a_log_of_ten_thousand_lines_is_followed_and_searched(open_page: Open, source: FakeSource) -> None:
    source.put(PLAYED.ready())
    page = await open_page(f"{PATH}/logs")
    await expect(page.locator("#log-state")).to_have_text("No lines yet.")

    for begin in range(0, 10_000, 500):
        lines = (f"line {number}" for number in range(begin, begin + 500))
        source.write(PLAYED.pod_name, "kserve-container", *lines)
    await expect(page.locator("#log-state")).to_have_text("10,000 lines, 1,500 shown.")
    await expect(page.locator("#lines div").last).to_contain_text("line 9999")
    assert await page.locator("#lines div").count() == 1500

    await page.get_by_role("searchbox").fill("line 77")
    await expect(page.locator("#lines div")).to_have_count(111)  # what is not shown is searched as well
    await expect(page.locator("#lines mark").first).to_have_text("line 77")


async def test_who_goes_up_in_a_log_by_keys_stays_there_and_follows_again_at_its_end(
    open_page: Open, source: FakeSource
) -> None:
    source.put(PLAYED.ready())
    source.write(PLAYED.pod_name, "kserve-container", *(f"line {number}" for number in range(200)))
    page = await open_page(f"{PATH}/logs")
    follow, lines = page.get_by_label("Follow"), page.locator("#lines")
    await expect(lines.locator("div").last).to_contain_text("line 199")
    await lines.press("PageUp")
    await expect(follow).not_to_be_checked()
    source.write(PLAYED.pod_name, "kserve-container", "one more")
    await expect(lines.locator("div").last).to_contain_text("one more")
    assert await lines.evaluate("lines => lines.scrollHeight - lines.clientHeight - lines.scrollTop") > 50

    await lines.press("End")
    await expect(follow).to_be_checked()


async def test_the_containers_of_a_log_page_follow_the_service(open_page: Open, source: FakeSource) -> None:
    source.put(PLAYED.pending())
    page = await open_page(f"{PATH}/logs")
    await expect(page.locator("#log-state")).to_have_text("No container has been started.")

    source.write(PLAYED.pod_name, "kserve-container", "it starts")
    source.put(PLAYED.starting())
    await expect(page.get_by_text("it starts")).to_be_visible()
    source.put(PLAYED.failed())
    await expect(page.locator("#container option")).to_have_count(3)
    await expect(page.locator("#container")).to_have_value("kserve-container (exit code 1)")
    await expect(page.get_by_text("it starts")).to_be_visible()


async def test_a_log_that_nobody_sees_is_not_read(open_page: Open, source: FakeSource) -> None:
    source.put(PLAYED.ready())
    source.write(PLAYED.pod_name, "kserve-container", "it starts")
    page = await open_page(f"{PATH}/logs")
    await expect(page.get_by_text("it starts")).to_be_visible()
    for hidden in ("true", "false"):
        await page.evaluate(
            f"Object.defineProperty(document, 'hidden', {{value: {hidden}, configurable: true}});"
            "document.dispatchEvent(new Event('visibilitychange'))"
        )
        async with asyncio.timeout(5):
            while source.log_readers != (hidden == "false"):  # noqa: ASYNC110 - the server's next turns
                await asyncio.sleep(0.01)
    await expect(page.locator("#lines div")).to_have_count(1)


async def test_lines_are_chosen_by_level_and_by_container(open_page: Open, source: FakeSource) -> None:
    source.put(PLAYED.failed())
    source.write(PLAYED.pod_name, "kserve-container", "DEBUG a", "INFO b", "WARNING c", "ERROR d")
    source.write(PLAYED.pod_name, "kserve-container before", "the run before")
    page = await open_page(f"{PATH}/logs")
    lines = page.locator("#lines div")
    await expect(lines).to_have_count(4)

    await page.get_by_label("Level").select_option("Warnings and errors")
    await expect(lines).to_contain_text(["WARNING c", "ERROR d"])
    await page.get_by_label("Level").select_option("All levels")
    await page.get_by_label("Container").select_option("kserve-container before its last restart")
    await expect(lines).to_contain_text(["the run before"])
    await expect(page.locator("#log-state")).to_contain_text("The log ends here")


# --- requests, charts, YAML --------------------------------------------------------------------------------------


async def test_a_request_is_sent_by_the_form_and_by_a_file_and_its_time_adds_up(
    open_page: Open, source: FakeSource
) -> None:
    source.put(PLAYED.ready())
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


async def test_the_charts_are_drawn_and_go_on(
    open_page: Open, source: FakeSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scraping, "EVERY", 0.1)
    source.put(PLAYED.ready())
    metrics = ServerMetrics()

    def served_one_more() -> str:
        metrics.observe("POST", "/v1/models/{model}:predict", 200, 0.02)
        return metrics.exposition().decode()

    source.metrics_of[PLAYED.pod_name] = served_one_more
    page = await open_page(f"{PATH}/charts")
    await expect(page.locator("[data-now=latency]")).to_contain_text("18 ms · 24 ms · 25 ms")
    await expect(page.locator(".plot canvas")).to_have_count(5)


async def test_the_yaml_is_shown_as_applied_and_as_rendered(open_page: Open, source: FakeSource) -> None:
    source.put(PLAYED.ready())
    page = await open_page(f"{PATH}/yaml")

    await expect(page.get_by_label("YAML as applied")).to_contain_text("storageUri: pvc://leeway")
    await expect(page.get_by_label("YAML of the status")).to_contain_text("type: Ready")
    await expect(page.get_by_role("region", name="Runtime")).to_contain_text("isvc-mar of the cluster")
    await page.get_by_text("Deployment torchserve-predictor").click()
    await expect(page.get_by_label("YAML of Deployment torchserve-predictor")).to_contain_text(
        "--model-dir=/mnt/models"
    )


# --- hostile texts -------------------------------------------------------------------------------------------------

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
    failed = replace(failed, events=[*failed.events, played.event(70, HOSTILE, HOSTILE, warning=True)])
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


# --- it is for everybody -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
async def test_axe_finds_nothing(open_page: Open, source: FakeSource, scheme: Any, width: int) -> None:
    source.put(PLAYED.failed(), FakeServices(name="mnist").loading(40), FakeServices(name="resnet").ready())
    source.write(PLAYED.pod_name, "kserve-container", "DEBUG a", "INFO b", "WARNING c", "ERROR d")
    source.respond = respond
    options = {"color_scheme": scheme, "viewport": {"width": width, "height": 800}, "bypass_csp": True}
    page = await open_page("/", **options)
    found = {"/": await findings(page)}
    for tab in TAB_PATHS:
        await page.goto(page.url.split("/services")[0].rstrip("/") + PATH + tab)
        if tab == "/request":
            await page.get_by_role("button", name="Send").click()
            await expect(page.locator("#response")).to_contain_text("200 in")
        found[tab] = await findings(page)

    assert {tab: items for tab, items in found.items() if items} == {}


@pytest.mark.parametrize("tab", [None, *TAB_PATHS])
async def test_a_phone_need_not_be_scrolled_sideways(open_page: Open, source: FakeSource, tab: str | None) -> None:
    source.put(PLAYED.failed())
    source.respond = respond
    page = await open_page("/" if tab is None else PATH + tab, viewport={"width": 360, "height": 740})

    await expect(page.locator("#connection")).to_have_text("Live")
    assert await page.evaluate("document.documentElement.scrollWidth") <= 360


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
