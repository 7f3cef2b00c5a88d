"""The logs of a service in Chromium: they are followed, searched and chosen from."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import expect

from tests.e2e.browser.conftest import Open
from tests.e2e.browser.services import PATH, SERVICES
from tests.support.fake_source import FakeSource

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_log_of_ten_thousand_lines_is_followed_and_searched(open_page: Open, source: FakeSource) -> None:
    source.put(SERVICES.ready())
    page = await open_page(f"{PATH}/logs")
    await expect(page.locator("#log-state")).to_have_text("No lines yet.")

    for begin in range(0, 10_000, 500):
        lines = (f"line {number}" for number in range(begin, begin + 500))
        source.write(SERVICES.pod_name, "kserve-container", *lines)
    await expect(page.locator("#log-state")).to_have_text("10,000 lines, 1,500 shown.")
    await expect(page.locator("#lines div").last).to_contain_text("line 9999")
    assert await page.locator("#lines div").count() == 1500

    await page.get_by_role("searchbox").fill("line 77")
    await expect(page.locator("#lines div")).to_have_count(111)  # what is not shown is searched as well
    await expect(page.locator("#lines mark").first).to_have_text("line 77")


async def test_who_goes_up_in_a_log_by_keys_stays_there_and_follows_again_at_its_end(
    open_page: Open, source: FakeSource
) -> None:
    source.put(SERVICES.ready())
    source.write(SERVICES.pod_name, "kserve-container", *(f"line {number}" for number in range(200)))
    page = await open_page(f"{PATH}/logs")
    follow, lines = page.get_by_label("Follow"), page.locator("#lines")
    await expect(lines.locator("div").last).to_contain_text("line 199")
    await lines.press("PageUp")
    await expect(follow).not_to_be_checked()
    source.write(SERVICES.pod_name, "kserve-container", "one more")
    await expect(lines.locator("div").last).to_contain_text("one more")
    assert await lines.evaluate("lines => lines.scrollHeight - lines.clientHeight - lines.scrollTop") > 50

    await lines.press("End")
    await expect(follow).to_be_checked()


async def test_the_containers_of_a_log_page_follow_the_service(open_page: Open, source: FakeSource) -> None:
    source.put(SERVICES.pending())
    page = await open_page(f"{PATH}/logs")
    await expect(page.locator("#log-state")).to_have_text("No container has been started.")
    await expect(page.get_by_label("Container")).to_be_hidden()

    source.write(SERVICES.pod_name, "kserve-container", "it starts")
    source.put(SERVICES.starting())
    await expect(page.get_by_text("it starts")).to_be_visible()
    source.put(SERVICES.failed())
    await expect(page.locator("#container option")).to_have_count(4)
    await expect(page.locator("#container")).to_have_value("kserve-container (exit code 1)")
    await expect(page.get_by_text("it starts")).to_be_visible()


async def test_a_log_that_nobody_sees_is_not_read(open_page: Open, source: FakeSource) -> None:
    source.put(SERVICES.ready())
    source.write(SERVICES.pod_name, "kserve-container", "it starts")
    page = await open_page(f"{PATH}/logs")
    await expect(page.get_by_text("it starts")).to_be_visible()
    for hidden in ("true", "false"):
        await page.evaluate(
            f"Object.defineProperty(document, 'hidden', {{value: {hidden}, configurable: true}});"
            "document.dispatchEvent(new Event('visibilitychange'))"
        )
        async with asyncio.timeout(120):
            while source.log_readers != (hidden == "false"):  # noqa: ASYNC110 - the server's next turns
                await asyncio.sleep(0.01)
    await expect(page.locator("#lines div")).to_have_count(1)


async def test_lines_are_chosen_by_level_and_by_container(open_page: Open, source: FakeSource) -> None:
    source.put(SERVICES.failed())
    source.write(SERVICES.pod_name, "kserve-container", "DEBUG a", "INFO b", "WARNING c", "ERROR d")
    source.write(SERVICES.pod_name, "kserve-container before", "the run before")
    page = await open_page(f"{PATH}/logs")
    lines = page.locator("#lines div")
    await expect(lines).to_have_count(4)

    await page.get_by_label("Level").select_option("Warnings and errors")
    await expect(lines).to_contain_text(["WARNING c", "ERROR d"])
    await page.get_by_label("Level").select_option("All levels")
    await page.get_by_label("Container").select_option("kserve-container before its last restart")
    await expect(lines).to_contain_text(["the run before"])
    await expect(page.locator("#log-state")).to_contain_text("The log ends here")


async def test_a_line_with_a_time_of_its_own_shows_one_time(open_page: Open, source: FakeSource) -> None:
    source.put(SERVICES.starting())
    own = "2026-01-01 12:00:00,001 "
    source.write(SERVICES.pod_name, "kserve-container", f"{own}INFO ready", "  2026 lines")
    page = await open_page(f"{PATH}/logs")

    rows, times = page.locator("#lines div"), page.locator("#lines .own")
    await expect(rows).to_have_text([f"12:00:00.000{own}INFO ready", "12:00:00.000  2026 lines"])
    assert await times.evaluate_all("all => all.map((one) => one.textContent && one.offsetWidth)") == [0, ""]
    await page.get_by_label("Show only lines with").fill("12:00:00,001")
    await expect(page.locator("#lines mark")).to_be_visible()


async def test_the_logs_of_all_containers_are_in_their_order_and_errors_are_found(
    open_page: Open, source: FakeSource
) -> None:
    source.put(SERVICES.ready())
    for second in range(0, 60, 2):
        at = "2026-01-01T12:00:{:02}.000Z"
        source.write(SERVICES.pod_name, "kserve-container", f"line {second}", at=at.format(second))
        source.write(SERVICES.pod_name, "storage-initializer", f"line {second + 1}", at=at.format(second + 1))
    source.write(
        SERVICES.pod_name, "kserve-container", "Traceback", "  File", "KeyError: 'a'", at="2026-01-01T12:00:30.500Z"
    )
    page = await open_page(f"{PATH}/logs", viewport={"width": 1280, "height": 500})
    lines = page.locator("#lines div")
    await page.get_by_label("Container").select_option("All containers")
    await expect(lines).to_have_count(63)
    assert [await lines.nth(number).inner_text() for number in (0, 30, 31, 34, 62)] == [
        "12:00:00.000predictor kserve-containerline 0",
        "12:00:30.000predictor kserve-containerline 30",
        "12:00:30.500predictor kserve-containerTraceback",
        "12:00:31.000predictor storage-initializerline 31",
        "12:00:59.000predictor storage-initializerline 59",
    ]

    await page.get_by_role("button", name="1 error").click()
    await expect(page.locator("#lines .found")).to_contain_text("Traceback")
    await expect(page.locator("#lines .found")).to_be_in_viewport()
    await expect(page.get_by_label("Follow")).not_to_be_checked()
