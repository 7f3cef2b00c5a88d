"""What a stream sends: the page's parts, then what changes; lines of logs; points of charts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import aiohttp
import pytest

from data_plane.server.metrics import ServerMetrics
from isvc import limits
from isvc.dashboard import pages, scraping, stream
from isvc.dashboard.errors import DashboardFailed
from isvc.dashboard.feed import Feed
from isvc.dashboard.scraping import Scraping, answered_requests
from isvc.dashboard.server import dashboard
from isvc.dashboard.traffic import Point
from isvc.view.diagnosis import Answered
from isvc.view.service import view_of
from isvc_operator.manifests import ServiceKey
from tests.support.fake_services import FakeServices
from tests.support.fake_source import FakeSource
from tests.unit.dashboard.conftest import read_events, without_colors

SERVICE = FakeServices()
OTHER = FakeServices(name="mnist")
KEY = ServiceKey("models", "torchserve")
OTHER_KEY = ServiceKey("models", "mnist")
PATH = "/services/models/torchserve"
CONTAINER = {"pod": SERVICE.pod_name, "container": "kserve-container"}


@pytest.fixture
def source() -> FakeSource:
    return FakeSource(SERVICE.loading(10), OTHER.ready())


@pytest.fixture
async def rows(viewer: aiohttp.ClientSession) -> AsyncIterator[AsyncIterator[tuple[str, str]]]:
    async with viewer.get("/events") as response:
        assert response.content_type == "text/event-stream"
        yield read_events(response)


async def test_of_all_services_only_what_changes_is_sent(
    rows: AsyncIterator[tuple[str, str]], source: FakeSource
) -> None:
    _, first = await anext(rows)
    source.put(SERVICE.loading(60))
    _, second = await anext(rows)

    assert (first.count("<tr"), second.count("<tr")) == (2, 1)
    assert 'value="60"' in second


async def test_a_change_that_nobody_sees_is_not_sent(rows: AsyncIterator[tuple[str, str]], source: FakeSource) -> None:
    await anext(rows)
    source.put(SERVICE.loading(10))
    source.put(OTHER.failed())

    assert "mnist" in (await anext(rows))[1]


@pytest.mark.parametrize("is_new", [True, False])
async def test_a_service_that_comes_or_goes_changes_the_list(
    rows: AsyncIterator[tuple[str, str]], source: FakeSource, is_new: bool
) -> None:
    await anext(rows)
    if is_new:
        source.put(FakeServices(name="new").pending())
    else:
        source.remove(KEY)

    _, sent = await anext(rows)
    assert sent.count("<tr") == is_new
    assert ('hx-swap="delete"' in sent) is not is_new


async def test_of_a_service_only_the_parts_that_change_are_sent(
    viewer: aiohttp.ClientSession, source: FakeSource
) -> None:
    async with viewer.get(f"{PATH}/events", params={"tab": ""}) as response:
        parts = read_events(response)
        _, first = await anext(parts)
        source.put(SERVICE.loading(60))
        _, second = await anext(parts)
        source.remove(KEY)
        _, third = await anext(parts)

    assert ('hx-target="#head"' in first, 'hx-target="#overview"' in first) == (True, True)
    assert 'value="60"' in second
    assert "was deleted" in third


async def test_a_part_of_a_start_that_goes_on_is_drawn_again(
    viewer: aiohttp.ClientSession, source: FakeSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    redrawn = {**pages.TABS, "timeline": replace(pages.TABS["timeline"], redrawn=0.01)}
    monkeypatch.setattr(pages, "TABS", redrawn)
    source.put(FakeServices(began=datetime.now(UTC)).loading(10))
    async with viewer.get(f"{PATH}/events", params={"tab": "timeline"}) as response:
        parts = read_events(response)
        _, first = await anext(parts)
        _, second = await anext(parts)

    assert 'hx-target="#history"' in first
    assert 'hx-target="#history"' not in second
    assert "so far" in second


async def test_the_list_of_containers_and_the_yaml_follow_the_service(
    viewer: aiohttp.ClientSession, source: FakeSource
) -> None:
    source.put(SERVICE.pending())
    for tab, before, after in (
        ("logs", "storage-initializer", "kserve-container before"),
        ("yaml", "replicas: 7", ""),
    ):
        source.put(SERVICE.pending())
        async with viewer.get(f"{PATH}/events", params={"tab": tab}) as response:
            parts = read_events(response)
            _, first = await anext(parts)
            changed = SERVICE.failed()
            source.put(replace(changed, children=SERVICE.children(replicas=7)))
            _, second = await anext(parts)
        assert before not in without_colors(first)
        assert before in without_colors(second)
        assert after in second


@pytest.mark.parametrize(
    "path", [f"{PATH}/events?tab=nothing", "/services/models/nothing", "/services/models/nothing/events"]
)
async def test_what_does_not_exist_is_not_found(viewer: aiohttp.ClientSession, path: str) -> None:
    async with viewer.get(path) as response:
        assert response.status == 404


async def test_more_streams_than_are_kept_are_refused(
    viewer: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "DASHBOARD_STREAMS", 1)
    async with viewer.get("/events") as first, viewer.get("/events") as second:
        assert (first.status, second.status) == (200, 503)
        assert "close some" in await second.text()


async def test_a_page_says_when_the_source_is_not_heard_and_when_it_is_again(
    rows: AsyncIterator[tuple[str, str]], source: FakeSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "_LOOKED", 0.01)
    await anext(rows)
    source.silence = stream.LOST
    source.put(SERVICE.loading(60))
    _, lost = [await anext(rows), await anext(rows)]
    source.silence = 0.0
    _, live = await anext(rows)

    assert 'data-state="lost">No word from the API server since ' in lost[1]
    assert 'data-state="live">Live<' in live


async def test_a_page_says_that_the_dashboard_has_ended(source: FakeSource) -> None:
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        async with dashboard(source, port=0, token="t", where="here") as address:
            await (await session.get(address)).read()
            rows = read_events(await session.get(address.split("?")[0] + "events"))
            await anext(rows)
            following = asyncio.create_task(anext(rows))
            await asyncio.sleep(0)
        _, last = await following

    assert 'data-state="lost">Ended at ' in last


async def test_a_dashboard_that_hears_no_more_changes_ends_with_an_error(source: FakeSource) -> None:
    async def looked_at() -> None:
        async with dashboard(source, port=0, token="t", where="here"):
            await asyncio.sleep(0)
            source.broken = RuntimeError("it broke")
            source.put(SERVICE.loading(60))
            await asyncio.sleep(5)

    with pytest.raises(DashboardFailed, match="no more changes: it broke"):
        await looked_at()


@pytest.mark.parametrize(
    "path",
    ["/events", f"{PATH}/events?tab=", f"{PATH}/log?pod={CONTAINER['pod']}&container={CONTAINER['container']}"],
    ids=["services", "service", "log"],
)
async def test_every_stream_says_that_it_is_there(
    viewer: aiohttp.ClientSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "HEARTBEAT", 0.01)
    async with viewer.get(path) as response:
        async for line in response.content:
            if line == b":\n":
                break


# --- logs ----------------------------------------------------------------------------------------------------


async def test_a_log_is_followed_with_its_levels(viewer: aiohttp.ClientSession, source: FakeSource) -> None:
    source.write(SERVICE.pod_name, "kserve-container", "starting", "WARNING slow")
    async with viewer.get(f"{PATH}/log", params=CONTAINER) as response:
        lines = read_events(response)
        first = await anext(lines)
        source.write(SERVICE.pod_name, "kserve-container", "Traceback (most recent call last):", at=None)
        second = await anext(lines)

    at = "2026-01-01T12:00:00.000Z"
    assert first == ("lines", json.dumps([[at, "info", "starting"], [at, "warning", "WARNING slow"]]))
    assert second == ("lines", json.dumps([[None, "error", "Traceback (most recent call last):"]]))


async def test_a_log_of_an_earlier_run_ends(viewer: aiohttp.ClientSession, source: FakeSource) -> None:
    source.write(SERVICE.pod_name, "kserve-container before", "it crashed")
    async with viewer.get(f"{PATH}/log", params={**CONTAINER, "previous": "true"}) as response:
        found = [event async for event in read_events(response)]

    assert [name for name, _ in found] == ["lines", "end"]


async def test_a_line_of_a_log_is_bounded_and_its_escapes_are_visible(
    viewer: aiohttp.ClientSession, source: FakeSource
) -> None:
    source.write(SERVICE.pod_name, "kserve-container", "\x1b[31m" + "x" * 100_000)
    async with viewer.get(f"{PATH}/log", params=CONTAINER) as response:
        _, data = await anext(read_events(response))

    ((_, _, text),) = json.loads(data)
    assert text.startswith("\\x1b[31mx")
    assert len(text) < limits.DASHBOARD_LOG_LINE_BYTES + 20


@pytest.mark.parametrize("lines", [1, 50_000], ids=["at its end", "while it loads"])
async def test_a_log_that_is_closed_is_not_read_any_more(
    viewer: aiohttp.ClientSession, source: FakeSource, lines: int
) -> None:
    source.write(SERVICE.pod_name, "kserve-container", *["x" * 4000] * lines)
    async with viewer.get(f"{PATH}/log", params=CONTAINER) as response:
        await response.content.readany()
        assert source.log_readers == 1
        response.close()

    async with asyncio.timeout(120):
        while source.log_readers:  # noqa: ASYNC110 - the server's next turns
            await asyncio.sleep(0.01)


async def test_the_logs_of_all_containers_are_one(viewer: aiohttp.ClientSession, source: FakeSource) -> None:
    source.put(SERVICE.ready())
    source.write(SERVICE.pod_name, "storage-initializer", "copied")
    source.write(SERVICE.pod_name, "kserve-container", "Traceback", "  File", "served")
    async with viewer.get(f"{PATH}/log") as response:
        lines = list[list[str]]()
        async for _, data in read_events(response):
            lines += json.loads(data)
            if len(lines) == 4:
                break

    at = "2026-01-01T12:00:00.000Z"
    assert sorted(lines) == [
        [at, "error", "  File", "predictor kserve-container"],
        [at, "error", "Traceback", "predictor kserve-container"],
        [at, "info", "copied", "predictor storage-initializer"],
        [at, "info", "served", "predictor kserve-container"],
    ]


async def test_not_more_logs_than_so_many_are_read_as_one(
    viewer: aiohttp.ClientSession, source: FakeSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "DASHBOARD_LOGS", 1)
    source.put(SERVICE.ready())
    async with viewer.get(f"{PATH}/log"):
        assert source.log_readers == 1


async def test_not_more_than_the_last_lines_are_read(viewer: aiohttp.ClientSession, source: FakeSource) -> None:
    count = limits.DASHBOARD_LOG_LINES
    source.write(SERVICE.pod_name, "kserve-container before", *map(str, range(count + 5)))
    async with viewer.get(f"{PATH}/log", params={**CONTAINER, "previous": "true"}) as response:
        events = [json.loads(data) async for name, data in read_events(response) if name == "lines"]

    texts = [text for event in events for _, _, text in event]
    assert (len(texts), texts[0]) == (count, "5")


async def test_a_container_of_another_service_has_no_log_here(viewer: aiohttp.ClientSession) -> None:
    async with viewer.get(f"{PATH}/log", params={**CONTAINER, "pod": OTHER.pod_name}) as response:
        assert response.status == 404


# --- charts --------------------------------------------------------------------------------------------------


async def test_services_that_nobody_looks_at_are_read_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DASHBOARD_SCRAPES", 3)
    monkeypatch.setattr(scraping, "EVERY", 0)
    names = [f"service-{number}" for number in range(7)]
    source = FakeSource(*(FakeServices(name=name).ready() for name in names))
    reader = Scraping(source, Feed(source))
    running = asyncio.create_task(reader.run())
    asked = [await source.scraped.get() for _ in names]
    for _ in range(5):
        await asyncio.sleep(0)
    running.cancel()

    assert sorted(asked) == [FakeServices(name=name).pod_name for name in names]
    assert source.scraped.empty()


async def test_metrics_that_are_too_large_or_no_metrics_count_as_none(
    viewer: aiohttp.ClientSession, source: FakeSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scraping, "EVERY", 0.02)
    source.put(SERVICE.ready())
    source.metrics_of |= {
        SERVICE.pod_name: lambda: "# x\n" * limits.DASHBOARD_METRICS_BYTES,
        OTHER.pod_name: lambda: "}{",
    }
    async with viewer.get("/events") as response:
        rows = read_events(response)
        await anext(rows)
        assert {await source.scraped.get() for _ in range(2)} == {SERVICE.pod_name, OTHER.pod_name}
        source.put(SERVICE.failed())
        assert "Failed" in (await anext(rows))[1]


async def test_only_so_many_pods_are_asked_for_metrics_at_a_time(
    source: FakeSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "DASHBOARD_SCRAPES", 2)
    source.put(SERVICE.ready(pods=5))
    at_once, most = 0, 0

    async def metrics(key: ServiceKey, pod: str) -> str:
        nonlocal at_once, most
        at_once, most = at_once + 1, max(most, at_once + 1)
        await asyncio.sleep(0)
        at_once -= 1
        source.scraped.put_nowait(pod)
        return ""

    monkeypatch.setattr(source, "metrics", metrics)
    reader = Scraping(source, Feed(source))
    with reader.watching([KEY]):
        running = asyncio.create_task(reader.run())
        assert len({await source.scraped.get() for _ in range(5)}) == 5
        running.cancel()

    assert most == 2


async def test_the_requests_of_a_service_are_those_of_its_transformer_if_that_counts_them(source: FakeSource) -> None:
    source.put(SERVICE.ready())
    related = source.related(KEY)
    assert related
    (predictor,) = view_of(related).components
    transformer = replace(predictor, kind="transformer", pods=[replace(predictor.pods[0], name="transformer")])
    service = replace(view_of(related), components=[predictor, transformer])

    source.metrics_of[SERVICE.pod_name] = lambda: 'http_requests_total{status="200"} 3\n'
    of_the_predictor = await answered_requests(source, service)
    source.metrics_of["transformer"] = lambda: 'http_requests_total{status="500"} 4\n'

    assert (of_the_predictor, await answered_requests(source, service)) == (Answered({200: 3}), Answered({500: 4}))


async def test_a_request_whose_model_the_predictor_lacks_is_counted_if_its_transformer_relays_it(
    source: FakeSource,
) -> None:
    source.put(SERVICE.ready())
    related = source.related(KEY)
    assert related
    (predictor,) = view_of(related).components
    transformer = replace(predictor, kind="transformer", pods=[replace(predictor.pods[0], name="transformer")])
    alone, service = view_of(related), replace(view_of(related), components=[predictor, transformer])
    source.metrics_of[SERVICE.pod_name] = lambda: 'http_requests_total{status="404"} 2\n'

    relayed = []
    for status in (404, 200):
        counted = f'http_requests_total{{status="{status}"}} 5\n'
        source.metrics_of["transformer"] = lambda text=counted: text
        relayed.append((await answered_requests(source, service)).without_model)

    assert (relayed, await answered_requests(source, alone)) == ([2, 0], Answered({404: 2}))


async def test_a_chart_has_a_bounded_number_of_points(source: FakeSource, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DASHBOARD_POINTS", 3)
    monkeypatch.setattr(scraping, "EVERY", 0)
    source.put(SERVICE.ready())
    source.metrics_of[SERVICE.pod_name] = lambda: ServerMetrics().exposition().decode()
    reader = Scraping(source, Feed(source))
    with reader.watching([KEY]):
        running = asyncio.create_task(reader.run())
        for _ in range(8):
            await source.scraped.get()
        assert len(reader.points(KEY)) == 3
        running.cancel()


@pytest.fixture
async def reader(source: FakeSource, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scraping]:
    """Reads the metrics of both services' pods, and waits for nothing."""
    monkeypatch.setattr(scraping, "EVERY", 0.01)
    source.put(SERVICE.ready())
    for pod in (SERVICE.pod_name, OTHER.pod_name):
        source.metrics_of[pod] = lambda: ServerMetrics().exposition().decode()
    feed = Feed(source)
    reader = Scraping(source, feed)
    running = [asyncio.create_task(item.run()) for item in (feed, reader)]
    yield reader
    for task in running:
        task.cancel()


async def seen_points(reader: Scraping, key: ServiceKey, count: int) -> Sequence[Point]:
    async with asyncio.timeout(120):
        while len(reader.points(key)) < count:  # noqa: ASYNC110 - the reader's next turns
            await asyncio.sleep(0.01)
    return reader.points(key)


async def test_there_are_points_of_the_time_before_somebody_looks(
    reader: Scraping, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scraping, "SELDOM", 0)

    assert len(await seen_points(reader, KEY, 2)) >= 2


async def test_points_stay_when_nobody_looks_and_are_forgotten_with_the_service(
    reader: Scraping, source: FakeSource
) -> None:
    with reader.watching([KEY]):
        before = await seen_points(reader, KEY, 2)
    with reader.watching([KEY]):
        after = await seen_points(reader, KEY, len(before) + 1)
    assert after[: len(before)] == before

    source.remove(KEY)
    async with asyncio.timeout(120):
        while reader.points(KEY):  # noqa: ASYNC110 - the reader's next turns
            await asyncio.sleep(0.01)


async def test_without_pods_there_is_no_traffic(reader: Scraping, source: FakeSource) -> None:
    with reader.watching([KEY]):
        before = await seen_points(reader, KEY, 1)
        source.put(SERVICE.stopped())
        after = await seen_points(reader, KEY, len(before) + 2)

    assert after[-1] == Point(at=after[-1].at)


async def test_a_slow_pod_keeps_no_other_service_waiting(
    reader: Scraping, source: FakeSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = source.metrics

    async def metrics(key: ServiceKey, pod: str) -> str:
        if key == KEY:
            await asyncio.Event().wait()
        return await quick(key, pod)

    monkeypatch.setattr(source, "metrics", metrics)
    with reader.watching([KEY, OTHER_KEY]):
        await seen_points(reader, OTHER_KEY, 3)

    assert reader.points(KEY) == ()


async def test_a_pod_without_metrics_is_left_alone_for_a_while(reader: Scraping, source: FakeSource) -> None:
    source.metrics_of[SERVICE.pod_name] = lambda: ""
    with reader.watching([KEY, OTHER_KEY]):
        await seen_points(reader, OTHER_KEY, 5)

    asked = [source.scraped.get_nowait() for _ in range(source.scraped.qsize())]
    assert asked.count(SERVICE.pod_name) == 1
