"""What people see of the dashboard in Chromium: the services, as they come, change, fail and go."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from playwright.async_api import expect

from isvc_operator.manifests import ServiceKey
from tests.e2e.browser.conftest import Open
from tests.e2e.browser.services import PATH, SERVICES, TAB_PATHS
from tests.support.fake_services import TRACEBACK, FakeServices
from tests.support.fake_source import FakeSource

pytestmark = pytest.mark.asyncio(loop_scope="module")

SHARES = {"transformer": 90, "canary": 10}


async def test_a_service_is_followed_from_pending_to_ready_without_a_reload(
    open_page: Open, source: FakeSource
) -> None:
    source.put(SERVICES.pending())
    page = await open_page()
    row = page.get_by_role("row", name="torchserve")
    await page.evaluate("document.body.dataset.first = 'yes'")
    await expect(row).to_contain_text("Scheduling")

    source.put(SERVICES.loading(10))
    bar = row.get_by_role("progressbar", name="download")
    await expect(bar).to_have_attribute("value", "10")
    handle = await bar.element_handle()
    source.put(SERVICES.loading(80))
    await expect(bar).to_have_attribute("value", "80")
    await expect(row).to_contain_text("84.2 MiB/s · 3 s left")
    assert await bar.evaluate("(bar, first) => bar === first", handle)  # it moves, and is not a new one

    source.put(SERVICES.ready())
    await expect(row).to_contain_text("Ready")
    await expect(row).to_contain_text("1/1")
    assert await page.evaluate("document.body.dataset.first") == "yes"


async def test_the_page_of_a_service_follows_it_and_says_so_to_a_screen_reader(
    open_page: Open, source: FakeSource
) -> None:
    source.put(SERVICES.loading(10))
    page = await open_page(PATH)
    await expect(page.get_by_role("progressbar")).to_have_attribute("value", "10")

    source.put(SERVICES.failed())
    failure = page.get_by_role("region", name="Why it is not ready").first
    await expect(failure).to_contain_text("Error(s) in loading state_dict for ConvNet")
    await expect(failure.get_by_role("link", name="Open its log")).to_be_visible()
    await expect(page.locator("#announced")).to_have_text("torchserve is Failed, ServerFailed")
    await expect(page.get_by_text("3 restarts")).to_be_visible()

    source.remove(ServiceKey("models", "torchserve"))
    await expect(page.get_by_text("This service was deleted")).to_be_visible()


async def test_a_service_that_comes_or_goes_is_listed_or_not(open_page: Open, source: FakeSource) -> None:
    source.put(SERVICES.ready())
    page = await open_page()
    await expect(page.get_by_role("status").first).to_have_text("Live")

    for name in ("zeta", "alpha", "beta"):
        source.services[ServiceKey("models", name)] = FakeServices(name=name).ready()
    source.put(FakeServices(name="mnist").pending())
    await expect(page.get_by_role("link", name="mnist")).to_be_visible()
    await expect(page.locator("#rows a")).to_have_text(["mnist", "alpha", "beta", "torchserve", "zeta"])
    source.remove(ServiceKey("models", "mnist"))
    await expect(page.get_by_role("link", name="mnist")).to_have_count(0)


async def test_the_way_of_a_request_and_the_time_line_are_drawn(open_page: Open, source: FakeSource) -> None:
    source.put(SERVICES.ready())
    page = await open_page(PATH)
    await expect(page.get_by_role("region", name="Request path").get_by_role("listitem")).to_have_text(
        ["from client", "Ingress torchserve.models.example.com", "predictor torchserve-predictor"]
    )

    await page.get_by_role("link", name="Timeline").click()
    await expect(page.get_by_text("ready after 33 s")).to_be_visible()
    await expect(page.locator(".slowest")).to_contain_text("storage-initializer copies the model 17 s")
    source.put(SERVICES.failed())
    await expect(page.get_by_text("Back-off restarting failed container")).to_be_visible()


async def test_the_shares_of_a_canary_and_its_transformer_are_on_the_way(open_page: Open, source: FakeSource) -> None:
    played = SERVICES.ready()
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


async def test_a_page_that_has_ended_is_gray_and_says_so(open_page: Open, source: FakeSource) -> None:
    source.put(SERVICES.ready())
    page = await open_page()
    await expect(page.locator("#connection")).to_have_text("Live")
    colored = await page.locator("#rows").evaluate("rows => getComputedStyle(rows).filter")

    await page.evaluate("connection('lost', 'Ended at 12:00 UTC')")
    await expect(page.locator("#rows")).to_have_css("filter", "grayscale(1)")
    assert colored == "none"


async def test_a_list_without_services_says_the_next_command(open_page: Open, source: FakeSource) -> None:
    page = await open_page()
    await expect(page.get_by_label("What to do next")).to_have_text("kubectl apply -f service.yaml")
    await expect(page.get_by_role("table")).to_be_hidden()

    source.put(SERVICES.pending())
    await expect(page.get_by_role("link", name="torchserve")).to_be_visible()
    await expect(page.get_by_label("What to do next")).to_be_hidden()
    source.remove(ServiceKey("models", "torchserve"))
    await expect(page.get_by_label("What to do next")).to_be_visible()


async def test_a_service_that_no_operator_has_seen_does_not_look_as_if_it_starts(
    open_page: Open, source: FakeSource
) -> None:
    source.put(SERVICES.unprocessed())
    page = await open_page(PATH)

    await expect(page.locator(".head .pill")).to_have_text("Not processed")
    await expect(page.get_by_text("isvc doctor says whether an operator runs")).to_be_visible()
    await expect(page.locator(".sign.starting")).to_have_count(0)


async def test_a_rollout_is_a_state(open_page: Open, source: FakeSource) -> None:
    source.put(SERVICES.rolling(ready="True"))
    page = await open_page()
    row = page.get_by_role("row", name="torchserve")
    await expect(row).to_contain_text("Rolling out")
    await expect(row).to_contain_text("0 of 2 newer pods ready; 2 older serve")

    source.put(SERVICES.ready())
    await expect(row.locator(".pill")).to_have_text("Ready")


@pytest.mark.parametrize("tab", TAB_PATHS)
async def test_the_cause_is_one_line_wherever_it_is_said(open_page: Open, source: FakeSource, tab: str) -> None:
    source.put(SERVICES.failed(TRACEBACK))
    page = await open_page(PATH + tab, viewport={"width": 1280, "height": 800})
    await expect(page.locator("#connection")).to_have_text("Live")
    line = "RuntimeError: Error(s) in loading state_dict for ConvNet: size mismatch for fc1.weight"
    said = page.get_by_role("main").get_by_text(line).filter(visible=True) if tab == "" else page.locator(".why")
    await expect(said).to_have_count(1)
    await expect(said).to_contain_text(line)
    assert await said.evaluate("line => line.getBoundingClientRect().height") < 30

    if tab == "":
        await expect(page.get_by_text("handler.py, line 11")).to_be_visible()
        await page.get_by_text("More").click()
        await expect(page.get_by_label("The whole message")).to_contain_text("load_state_dict(torch.load(path))")


async def test_services_are_searched_and_the_search_stays_when_they_change(open_page: Open, source: FakeSource) -> None:
    failing = FakeServices(name="mnist", namespace="vision")
    source.put(SERVICES.ready(), failing.failed(), FakeServices(name="resnet", namespace="vision").ready())
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


async def test_failures_come_first_and_columns_are_sorted(open_page: Open, source: FakeSource) -> None:
    now = datetime.now(UTC)
    for minutes, name in enumerate(("a", "b", "c")):
        source.put(FakeServices(name=name, began=now - timedelta(minutes=minutes)).ready())
    source.put(FakeServices(name="d", began=now - timedelta(days=1)).failed())
    page = await open_page()
    names = page.locator("#rows a")
    await expect(names).to_have_text(["d", "a", "b", "c"])

    created = page.get_by_role("button", name="Created")
    await created.click()
    await expect(names).to_have_text(["a", "b", "c", "d"])
    await created.click()
    await expect(names).to_have_text(["d", "c", "b", "a"])
    await expect(page.get_by_role("columnheader", name="Created")).to_have_attribute("aria-sort", "ascending")
    source.put(FakeServices(name="a", began=now - timedelta(days=2)).ready())
    await expect(names).to_have_text(["a", "d", "c", "b"])
    await page.reload()
    await expect(names).to_have_text(["a", "d", "c", "b"])
    await created.click()
    await expect(names).to_have_text(["d", "a", "b", "c"])


async def test_tabs_are_chosen_by_keys_which_a_key_lists(open_page: Open, source: FakeSource) -> None:
    source.put(SERVICES.ready())
    page = await open_page(PATH)
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog")).to_contain_text("the tabs of a service")
    await page.keyboard.press("Escape")
    await page.keyboard.press("6")
    await expect(page).to_have_url(re.compile("/yaml$"))
    await page.wait_for_load_state()  # a page hears keys from then on
    await page.keyboard.press("u")
    await expect(page.get_by_role("heading", name="Services")).to_be_visible()
