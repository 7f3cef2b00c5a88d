"""The dashboard of `isvc run` in Chromium: real downloads, servers, requests and logs, all by one start.

`digits` is an archive on a slow web server, whose handler logs and repeats texts; `numbers` is a graph
that declares its inputs; `broken` cannot start.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import pytest
import pytest_asyncio
from onnx import TensorProto, helper
from playwright.async_api import Browser, Locator, Page, expect

from tests.e2e.browser.conftest import Open, visits
from tests.support.digits import digits_zip
from tests.support.isvc_process import Sandbox, drained, new_sandbox, read_until
from tests.support.local_services import runtime, service, write_yaml
from tests.support.object_stores import nginx, tls
from tests.support.object_stores.proxy import Request, Slow, is_object, proxy

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

TORCHLESS = Path(__file__).parents[2] / "support/torchless"
MARKUP = "</td></pre><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
HOSTILE = f"{MARKUP}\x1b[31m\u202e"
LINES = 10_000
BYTES, BYTES_PER_S = 12_000_000, 300_000


@dataclass(frozen=True)
class Run:
    """A running `isvc run`, and the address of its dashboard; the download of `digits` is slow until ``is_seen``."""

    sandbox: Sandbox
    address: str
    is_seen: threading.Event

    def answer(self, name: str, path: str, body: Any) -> Any:
        status, document = self.sandbox.ask(f"{name}.default.example.com", path, body)
        assert status == 200, document
        return document


def save_numbers(path: Path) -> None:
    """A graph that gives what it takes."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 3]) for name in ("row", "same")]
    graph = helper.make_graph([helper.make_node("Identity", ["row"], ["same"])], "numbers", ports[:1], ports[1:])
    onnx.save(helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 17)]), path)


def served(name: str, uri: str, format_: str = "pytorch") -> dict[str, Any]:
    model = {"modelFormat": {"name": format_}, "storageUri": uri, "runtime": "isvc-mar"}
    item = service(name, uri=uri)
    return {**item, "metadata": {"name": name}, "spec": {"predictor": {"model": model}}}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("run")
    (folder / "models").mkdir()
    is_seen = threading.Event()
    save_numbers(folder / "models/model.onnx")

    def slow(request: Request) -> Slow | None:
        return Slow(BYTES_PER_S, until=is_seen) if is_object(request) else None

    with nginx.running(folder / "web", tls.issue(folder / "tls")) as web, proxy(web.url, slow) as store:
        web.put("digits.zip", digits_zip(folder, padding=BYTES))
        services = (
            served("digits", f"{store.url}/digits.zip"),
            served("numbers", "pvc://models", "onnx"),
            service("broken", {"FAIL": HOSTILE}),
            runtime(),
        )
        with new_sandbox(folder) as sandbox:
            environment = {"PYTHONPATH": str(TORCHLESS)}
            arguments = (write_yaml(folder / "services.yaml", *services), "--pvc", f"models={folder / 'models'}")
            running = sandbox.running(*arguments, environment=environment)
            with running as process, drained(process):
                try:
                    found = re.search(r"http\S+", read_until(process.stdout, "The dashboard is at"))
                    assert found
                    yield Run(sandbox, found[0], is_seen)
                finally:
                    process.terminate()
                    process.wait()


@pytest_asyncio.fixture(loop_scope="module")
async def open_page(browser: Browser, run: Run) -> AsyncIterator[Open]:
    async with visits(browser, run.address) as opened:
        yield opened


def path(name: str, tab: str = "") -> str:
    return f"/services/default/{name}{tab}"


# --- from its creation to Ready --------------------------------------------------------------------------------


async def test_a_start_is_followed_without_a_reload(open_page: Open, run: Run) -> None:
    """It is the first test: the download goes on as long as it needs."""
    table, overview = await open_page(), await open_page(path("digits"))
    await table.evaluate("window.mark = true")
    await overview.evaluate("window.mark = true")
    row = table.get_by_role("row", name="digits")

    await expect(row).to_contain_text("Starting")
    await expect(overview.locator(".cause")).to_contain_text("LoadingModel")
    await has_moved(table, f'#rows tr:has(a[href="{path("digits")}"]) progress')
    await has_moved(overview, ".pod progress")
    run.is_seen.set()

    await expect(row).to_contain_text("Ready", timeout=60_000)
    await expect(overview.locator(".head .pill")).to_have_text("Ready", timeout=60_000)
    await expect(overview.locator(".pod progress")).to_have_count(0)
    assert await table.evaluate("window.mark")
    assert await overview.evaluate("window.mark")


async def has_moved(page: Page, bar: str) -> None:
    """Wait until a bar has shown two values, the later one the larger."""
    shown = await page.locator(bar).first.evaluate("bar => bar.value")
    await page.wait_for_function("([bar, shown]) => document.querySelector(bar)?.value > shown", arg=[bar, shown])


async def test_a_service_that_cannot_start_says_why(open_page: Open, run: Run) -> None:
    page = await open_page(path("broken"))

    failure = page.get_by_role("region", name="Why it is not ready")
    await expect(failure).to_contain_text("ServerFailed")
    await expect(failure).to_contain_text("exit code 3")
    await expect(failure).to_contain_text("<script>document.title='owned'</script>")
    await expect(page.locator(".pod .restarts")).to_have_text(re.compile(r"^[1-9]\d* restarts?$"), timeout=30_000)


# --- requests --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["v1", "v2"])
async def test_a_sample_is_made_from_the_models_inputs_and_sent(open_page: Open, run: Run, protocol: str) -> None:
    page = await open_page(path("numbers", "/request"))
    if protocol == "v2":
        await page.get_by_label("Protocol").select_option("v2")
        await expect(page.get_by_text("/v2/models/numbers/infer")).to_be_visible()
    sample = json.loads(await page.get_by_label("Body", exact=True).input_value())
    await page.get_by_role("button", name="Send").click()

    shown = await answer(page)
    if protocol == "v1":
        assert sample == {"instances": [[0.0, 0.0, 0.0]]}
        assert shown == run.answer("numbers", "/v1/models/numbers:predict", sample)
        return
    assert sample == {"inputs": [{"name": "row", "datatype": "FP32", "shape": [1, 3], "data": [0.0, 0.0, 0.0]}]}
    said = run.answer("numbers", "/v2/models/numbers/infer", sample)
    assert {**shown, "id": ""} == {**said, "id": ""}


async def test_the_commands_that_are_copied_get_a_response(open_page: Open) -> None:
    page = await open_page(path("numbers", "/request"), permissions=["clipboard-read", "clipboard-write"])
    for name, program in (("Copy as curl", "bash"), ("Copy as Python", sys.executable)):
        button = page.get_by_role("button", name=name)
        await button.click()
        await expect(page.get_by_role("button", name="Copied").first).to_be_visible()
        text = await page.evaluate("navigator.clipboard.readText()")
        done = await asyncio.to_thread(subprocess.run, [program, "-c", text], capture_output=True, check=True)
        assert json.loads(done.stdout) == {"predictions": [[0.0, 0.0, 0.0]]}
        await expect(button).to_be_visible()


async def answer(page: Page) -> Any:
    """The body of a good response, as it is shown."""
    await expect(page.locator("#response .status")).to_have_text("200")
    return json.loads(await page.get_by_label("Body of the response").inner_text())


async def test_keys_suffice_to_reach_the_form_and_send(open_page: Open) -> None:
    page = await open_page()
    await page.keyboard.press("/")
    await page.keyboard.type("numbers")
    await page.keyboard.press("Escape")
    await tab_to(page, page.get_by_role("link", name="numbers"))
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile("/services/default/numbers$"))
    await tab_to(page, page.get_by_role("link", name="Request"))
    await page.keyboard.press("Enter")
    await expect(page.get_by_label("Model")).to_have_value("numbers")
    await tab_to(page, page.get_by_label("Body", exact=True))
    await page.wait_for_load_state()  # a page hears keys from then on
    await page.keyboard.press("Control+Enter")

    assert await answer(page) == {"predictions": [[0.0, 0.0, 0.0]]}


async def tab_to(page: Page, wanted: Locator) -> None:
    """Press Tab until the element has the focus."""
    for _ in range(40):
        if await wanted.evaluate("element => element === document.activeElement"):
            return
        await page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not reach {wanted}")


async def test_requests_are_seen_in_the_list_and_in_the_charts(open_page: Open, run: Run) -> None:
    table, charts = await open_page(), await open_page(path("digits", "/charts"))
    await expect(charts.locator(".charts")).to_have_attribute("data-points", re.compile("[1-9]"), timeout=30_000)
    for number in range(50):
        run.answer("digits", "/v1/models/digits:predict", {"instances": [{"data": f"text {number}"}]})

    row = table.get_by_role("row", name="digits")
    await expect(row.locator("[data-label='Requests/s']")).to_have_text(re.compile(r"^[1-9]"), timeout=30_000)
    await expect(row.locator("[data-label=p95]")).to_have_text(re.compile(r"\d m?s$"))
    seen = "points.some((point) => point.rate > 0 && point.p95 > 0 && point.memory > 2 ** 20)"
    await charts.wait_for_function(seen, timeout=30_000)
    await expect(charts.locator("[data-chart=memory]")).to_be_visible()
    await charts.evaluate("for (const point of points) point.memory = null; draw()")
    await expect(charts.locator("figure:visible")).to_have_count(4)


# --- logs ------------------------------------------------------------------------------------------------------


async def test_ten_thousand_lines_are_followed_in_their_order(open_page: Open, run: Run) -> None:
    page = await open_page(path("digits", "/logs"))
    lines = page.locator("#lines div")
    await expect(lines.first).to_be_visible()
    await page.evaluate(
        "window.seen = []; stream.addEventListener('lines', (event) => seen.push(...JSON.parse(event.data)))"
    )
    asked = {"instances": [{"data": f"say {LINES} the log goes on"}]}
    assert run.answer("digits", "/v1/models/digits:predict", asked) == {"predictions": ["said"]}
    await expect(lines.filter(has_text=f"the log goes on {LINES - 1}").last).to_be_visible(timeout=60_000)

    seen = await page.evaluate("seen.map(([, , text]) => text.match(/the log goes on (\\d+)$/)?.[1]).filter(Boolean)")
    assert [int(number) for number in seen] == list(range(LINES))
