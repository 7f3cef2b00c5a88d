"""The dashboard in Chromium with 300 services: first paint, an update, a flood of log lines, and minutes of changes.

Then with a real API server: how long it takes until each way in which a pod can fail is on the page.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path
from typing import Any

import psutil
from playwright.async_api import Browser, CDPSession, Page, expect

from isvc_operator.cluster.source import cluster_source
from isvc_operator.dashboard.server import dashboard
from isvc_operator.kube.client import connect
from isvc_operator.manifests import ServiceKey
from tests.bench.options import Options
from tests.bench.report import Measured, Row, versions
from tests.e2e.browser.conftest import chromium
from tests.support.apiserver import find_assets, install_crds, running
from tests.support.failing_pods import FAILING_PODS
from tests.support.played_services import Played
from tests.support.played_source import PlayedSource
from tests.support.related import a_related
from tests.support.stored import store

SERVICES = 300
_CAUSE_S = 3.0
LINES = 10_000
_PAINT_MS, _UPDATE_MS, _TASK_MS, _GROWTH = 1000, 100, 200, 0.1
_MINUTES = 10.0
_SLICES = 10  # of the minutes of changes; what is kept is read after each
_COLLECTIONS = 6  # of garbage, until what is left is what is kept
_A_SECOND = 10  # changes, of the minutes of changes

_PAINTED = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
# When the next change of the table is in the document, in seconds since 1970.
_WATCH = """() => { window.changed = new Promise((seen) => {
  const rows = document.getElementById("rows");
  new MutationObserver((_, self) => { self.disconnect(); seen((performance.timeOrigin + performance.now()) / 1000); })
    .observe(rows, {subtree: true, childList: true, attributes: true, characterData: true});
}); }"""
_HAS_REASON = """([link, reason]) =>
  document.querySelector(`#rows tr:has(a[href="${link}"])`)?.textContent.includes(reason)"""
_LONG = """() => { window.tasks = [0]; new PerformanceObserver((list) =>
  list.getEntries().forEach((entry) => tasks.push(entry.duration))
).observe({entryTypes: ["longtask"]}); }"""


def measure(options: Options) -> Measured:
    """Return the rows of a browser and a server on one machine."""
    return asyncio.run(_measure(options))


async def _measure(options: Options) -> Measured:
    assets = find_assets(options.environment.get("KUBEBUILDER_ASSETS"))
    began = datetime.now(UTC) - timedelta(days=2)  # so old that its age changes once a day
    played = [Played(name=f"service-{number:03d}", began=began) for number in range(SERVICES)]
    source = PlayedSource(*(item.ready(events=False) for item in played))
    repeats = 5 if options.quick else 15
    async with chromium() as browser, dashboard(source, port=0, token="t", where="a benchmark") as address:
        paints = [await _first_paint(browser, address) for _ in range(repeats)]
        page, session = await _opened(browser, address)
        updates, costs = await _updates(page, session, source, played, 10 * repeats)
        longest = await _flood(browser, address, source, played[0])
        causes = await _causes(assets)
        minutes = options.minutes or (0.2 if options.quick else _MINUTES)
        await _churn(page, source, played, minutes / 4)  # until all that it keeps is there
        first = _resident()
        kept, changes = [await _kept(session)], 0
        for _ in range(_SLICES):
            changes += await _churn(page, source, played, minutes / _SLICES)
            kept.append(await _kept(session))
        memory = _resident()
    p99 = statistics.quantiles(updates, n=100)[98]
    median = statistics.median(paints)
    rows = [
        _row("first-paint", f"first paint of {SERVICES} services, median", median, "ms", _PAINT_MS),
        _row("update", "update, from the source to the page, median", statistics.median(updates), "ms", _UPDATE_MS),
        _row("update-p99", "the same, 99th percentile", p99, "ms", _UPDATE_MS),
        Row("update-tasks", "the page's tasks for an update, layout and paint", round(costs, 2), "ms", "–", True),
        _row("flood", f"longest task of the page while {LINES:,} lines of a log come", longest, "ms", _TASK_MS),
        _row("growth", f"growth of the page's heap over {changes:,} changes in {minutes:g} minutes",
             _growth(kept, "JSHeapUsedSize"), "%", 100 * _GROWTH),
        _row("nodes", "growth of its nodes", _growth(kept, "Nodes"), "%", 100 * _GROWTH),
        Row("memory", "resident memory of the process that serves the pages and plays the services", round(memory, 1),
            "MiB", "–", True, "before those minutes", round(first, 1)),
        _row("causes", f"a failure is written to the API server → its reason on the page, slowest of {len(causes)}",
             max(causes.values()), "s", _CAUSE_S),
    ]  # fmt: skip
    cells: list[Mapping[str, Any]] = [
        {"paints_ms": paints},
        {"updates_ms": updates},
        {"kept": kept},
        {"causes_s": causes},
    ]
    return Measured(rows, {**versions(), "chromium": browser.version}, cells)


def _row(id_: str, what: str, value: float, unit: str, limit: float) -> Row:
    return Row(id_, what, round(value, 2), unit, f"≤ {limit:g} {unit}", value <= limit)


def _growth(kept: Sequence[Mapping[str, float]], name: str) -> float:
    """Return the growth from the first to the last third, in percent, of medians: it goes up and down by a tenth."""
    third = max(1, len(kept) // 3)
    first, last = (statistics.median(item[name] for item in part) for part in (kept[:third], kept[-third:]))
    return 100 * (last / first - 1)


def _resident() -> float:
    return float(psutil.Process().memory_info().rss / 2**20)


async def _opened(browser: Browser, address: str) -> tuple[Page, CDPSession]:
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(address)
    await expect(page.locator("#connection")).to_have_text("Live")
    session = await context.new_cdp_session(page)
    await session.send("Performance.enable")
    return page, session


async def _first_paint(browser: Browser, address: str) -> float:
    page, _ = await _opened(browser, address)
    painted: float = await page.evaluate(_PAINTED)
    await page.context.close()
    return painted


async def _updates(
    page: Page, session: CDPSession, source: PlayedSource, played: list[Played], repeats: int
) -> tuple[list[float], float]:
    """Return how long each update took, and the time of the page's tasks for one, in milliseconds."""
    before = await _metrics(session)
    found = []
    for number in range(repeats):
        item = played[(37 * number) % SERVICES]
        await page.evaluate(_WATCH)
        changed_at = time.time()
        source.put(item.loading(number % 100))
        found.append(1000 * (await page.evaluate("() => changed") - changed_at))
    tasks = (await _metrics(session))["TaskDuration"] - before["TaskDuration"]
    return found, 1000 * tasks / repeats


async def _churn(page: Page, source: PlayedSource, played: list[Played], minutes: float) -> int:
    """Change services for some minutes; now and then one goes and comes again. Returns how many changes there were."""
    end, changes = time.monotonic() + 60 * minutes, 0
    for number, item in enumerate(cycle(played)):
        if time.monotonic() >= end:
            break
        moments = (item.pending, lambda: item.loading(number % 100), item.starting, item.ready, item.failed)  # noqa: B023
        source.put(moments[number % len(moments)]())
        if number % 50 == 49:
            source.remove(ServiceKey(item.namespace, item.name))
            await asyncio.sleep(0.2)
            source.put(item.ready())
        changes += 1
        await asyncio.sleep(1 / _A_SECOND)
    source.put(*(item.ready(events=False) for item in played))
    await expect(page.locator("#rows tr[data-health=Ready]")).to_have_count(SERVICES)
    return changes


async def _flood(browser: Browser, address: str, source: PlayedSource, played: Played) -> float:
    page, _ = await _opened(browser, address)
    await page.goto(address.split("/?")[0] + f"/services/models/{played.name}/logs")
    await expect(page.locator("#log-state")).to_have_text("No lines yet.")
    await page.evaluate(_LONG)
    for begin in range(0, LINES, 100):
        texts = (f"INFO line {number} of a log that says something each time" for number in range(begin, begin + 100))
        source.write(played.pod_name, "kserve-container", *texts)
        await asyncio.sleep(0.02)
    await expect(page.locator("#log-state")).to_contain_text(f"{LINES:,} lines")
    longest: float = await page.evaluate("Math.max(...tasks)")
    return longest


async def _causes(assets: Path) -> dict[str, float]:
    """Return the seconds until the page of all services has the reason of each failure; it is open before.

    The clock starts before the first object of the service is written, and so before its status is.
    """
    found = {}
    with running(assets) as server:
        install_crds(server)
        async with (
            chromium() as browser,
            connect(str(server.kubeconfig)) as api,
            cluster_source(api, ()) as source,
            dashboard(source, port=0, token="t", where="a benchmark") as address,
        ):
            page, _ = await _opened(browser, address)
            for number, (name, (pod, failure)) in enumerate(FAILING_PODS.items()):
                namespace = f"case-{number}"
                await asyncio.to_thread(server.create_namespace, namespace)
                began = time.time()
                storing = asyncio.create_task(asyncio.to_thread(store, server, namespace, a_related(pod)))
                link = f"/services/{namespace}/torchserve"
                await page.wait_for_function(_HAS_REASON, arg=[link, failure.reason], polling=10)
                found[name] = round(time.time() - began, 3)
                await storing
    return found


async def _kept(session: CDPSession) -> dict[str, float]:
    """Return what the page keeps: one collection of garbage may leave what the last update was drawn with."""
    found = []
    for _ in range(_COLLECTIONS):
        found.append(await _metrics(session))
        await asyncio.sleep(0.5)
    return min(found, key=lambda metrics: metrics["JSHeapUsedSize"])


async def _metrics(session: CDPSession) -> dict[str, float]:
    """Return what the page uses, after its garbage is collected."""
    await session.send("HeapProfiler.collectGarbage")
    found: Any = await session.send("Performance.getMetrics")
    return {item["name"]: item["value"] for item in found["metrics"]}
