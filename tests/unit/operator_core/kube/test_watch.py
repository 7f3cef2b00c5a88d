"""A watch of one kind: what it asks for, what it reports, and what it does when the API server fails."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from isvc_operator.api.kinds import kind_named
from isvc_operator.kube import silence as silence_module
from isvc_operator.kube import watch as watch_module
from isvc_operator.kube.errors import KubeError, ObjectNotFound, ResponseTooLarge
from isvc_operator.kube.heard import Heard
from isvc_operator.kube.requests import ApiRequest
from isvc_operator.kube.silence import Silence
from isvc_operator.kube.watch import LATEST, Collection, OlderState, Watch, Watching
from isvc_operator.manifests import Manifest

PODS = Collection(kind_named("Pod"), "models")
ROUTES = Collection(kind_named("HTTPRoute"))


@dataclass
class Script:
    """An API server with answers to lists and watches, in their order. After the last, a watch stays open.

    A list is a list of pages, or an error. A watch is a list of parts, or an error.
    """

    lists: list[Any]
    watches: list[Any] = field(default_factory=list)
    asked: list[tuple[str, ...]] = field(default_factory=list)
    waiting: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, request: ApiRequest) -> str:
        query = dict(request.query)
        self.asked.append(("list", query["limit"], query.get("continue", "")))
        if not self.lists:
            return await self._forever()
        answer = self.lists.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return json.dumps(answer)

    @asynccontextmanager
    async def stream(self, request: ApiRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        self.asked.append(("watch", dict(request.query)["resourceVersion"]))
        answer = self.watches.pop(0) if self.watches else None
        if isinstance(answer, Exception):
            raise answer
        yield self._parts(answer)

    async def _parts(self, answer: Sequence[bytes] | None) -> AsyncIterator[bytes]:
        if answer is None:
            await self._forever()
        for part in answer or ():
            yield part

    async def _forever(self) -> str:
        self.waiting.set()
        return await asyncio.get_running_loop().create_future()


@dataclass
class Taken:
    """What a watch has reported, in short."""

    found: list[Any] = field(default_factory=list)

    def listed(self, collection: Collection, objects: Sequence[Manifest], version: int) -> None:
        self.found.append(([item["metadata"]["name"] for item in objects], version))
        assert all(item["kind"] == collection.kind.name for item in objects)
        assert all("managedFields" not in item["metadata"] for item in objects)  # of all pages, half of their size

    def changed(self, change: str, body: Manifest) -> None:
        self.found.append((change, body["metadata"]["name"], body["kind"], body["apiVersion"]))


def page(*names: str, version: int = 10, more: str = "") -> dict[str, Any]:
    items = [{"metadata": {"name": name, "managedFields": [{"manager": "kubectl"}]}} for name in names]
    return {"metadata": {"resourceVersion": str(version), "continue": more}, "items": items or None}


def event(change: str, name: str = "a", version: int = 11) -> bytes:
    body = {"metadata": {"name": name, "resourceVersion": str(version)}}
    return json.dumps({"type": change, "object": body}).encode() + b"\n"


def failure(code: int, message: str = "expired") -> bytes:
    return (
        json.dumps({"type": "ERROR", "object": {"kind": "Status", "code": code, "message": message}}).encode() + b"\n"
    )


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The back-off of the watch, which does not wait."""
    found: list[float] = []

    async def sleep(seconds: float) -> None:
        found.append(seconds)

    monkeypatch.setattr(watch_module.asyncio, "sleep", sleep)
    return found


async def run(
    api: Script,
    collection: Collection = PODS,
    *,
    recheck: float | None = None,
    then: Callable[[Watch], Awaitable[None]] | None = None,
) -> Taken:
    """Run a watch until it waits for more."""
    taken = Taken()
    heard = Heard(asyncio.get_running_loop().time)
    watch = Watch(Watching(api, heard, Silence(), lambda: 1.0, recheck), collection, taken)
    task = asyncio.create_task(watch.run())
    if then is not None:
        await then(watch)
    waiting = asyncio.create_task(api.waiting.wait())
    await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return taken


async def test_what_exists_is_listed_page_by_page_and_watched_from_there() -> None:
    api = Script(
        [page("a", more="next"), page("b", version=12)], [[event("ADDED", "c", 13)[:20], event("ADDED", "c", 13)[20:]]]
    )

    taken = await run(api)

    assert taken.found == [(["a", "b"], 12), ("ADDED", "c", "Pod", "v1")]
    assert api.asked == [("list", "500", ""), ("list", "500", "next"), ("watch", "12"), ("watch", "13")]


async def test_a_watch_that_ends_goes_on_after_its_last_event_or_bookmark(slept: list[float]) -> None:
    api = Script(
        [page()], [[event("MODIFIED", version=20) + event("BOOKMARK", version=25)], [event("DELETED", version=26)]]
    )

    taken = await run(api)

    assert [item[0] for item in taken.found] == [[], "MODIFIED", "DELETED"]
    assert api.asked[1:] == [("watch", "10"), ("watch", "25"), ("watch", "26")]
    assert slept == []


@pytest.mark.parametrize("expired", [[failure(410)], KubeError(410, "expired")], ids=["in the watch", "at once"])
async def test_a_version_that_has_expired_makes_it_list_again(expired: Any, slept: list[float]) -> None:
    api = Script([page("a", "gone"), page("a", version=50)], [expired])

    taken = await run(api)

    assert taken.found == [(["a", "gone"], 10), (["a"], 50)]
    assert api.asked == [("list", "500", ""), ("watch", "10"), ("list", "500", ""), ("watch", "50")]
    assert slept == []


async def test_after_an_error_of_a_watch_that_says_nothing_of_what_was_missed_it_lists_again(
    slept: list[float],
) -> None:
    api = Script([page("a"), page()], [[failure(500, "cannot be decoded")]])

    assert (await run(api)).found == [(["a"], 10), ([], 10)]
    assert slept == [0.5]


async def test_a_continue_token_that_has_expired_makes_the_list_begin_anew(slept: list[float]) -> None:
    api = Script([page("a", more="next"), KubeError(410, "expired"), page("b")])

    assert (await run(api)).found == [(["b"], 10)]


async def test_after_a_lost_connection_it_lists_again_once(slept: list[float]) -> None:
    """Whatever the API server was restored to, what is cached is what it has."""
    lost = KubeError(0, "no response")
    api = Script([page("a"), lost, page("b", version=12)], [lost, [], []])

    taken = await run(api)

    assert taken.found == [(["a"], 10), (["b"], 12)]
    assert api.asked[-4:] == [("list", "500", ""), ("watch", "12"), ("watch", "12"), ("watch", "12")]
    assert slept == [0.5, 1.0, 2.0, 4.0]


@pytest.mark.parametrize(
    "ended", [KubeError(0, "no response"), KubeError(410, "expired")], ids=["not reached", "expired"]
)
async def test_a_state_that_is_older_than_what_was_seen_before_ends_the_watch(
    ended: KubeError, slept: list[float]
) -> None:
    """After a restore of etcd no watch from a version that it has not reached yet would report anything."""
    api = Script([page("a", version=10), page("a", version=9)], [ended])

    with pytest.raises(OlderState, match="is at resource version 9 and was at 10 before"):
        await run(api)


async def test_a_watch_that_ends_at_once_is_not_opened_again_at_once(slept: list[float]) -> None:
    await run(Script([page("a"), page("a")], [[], [], []]))

    assert slept == [0.5, 1.0, 2.0]


async def test_a_busy_api_server_is_left_alone_for_as_long_as_it_asks(slept: list[float]) -> None:
    busy = KubeError(429, "busy", retry_after=7.0)
    api = Script([busy, page("a")], [busy])

    await run(api)

    assert slept == [7.0, 7.0]
    assert api.asked == [("list", "500", ""), ("list", "500", ""), ("watch", "10"), ("watch", "10")]


async def test_failures_are_warned_of_when_they_do_not_end(
    slept: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    await run(Script([*[KubeError(403, "forbidden")] * 3, page()]))

    text = "/api/v1/namespaces/models/pods cannot be watched, and is tried again: forbidden"
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("INFO", text),
        ("INFO", text),
        ("WARNING", text),
    ]


async def test_a_page_that_is_too_large_is_asked_for_in_smaller_ones() -> None:
    api = Script([page("a", more="next"), ResponseTooLarge(0, "large"), ResponseTooLarge(0, "large"), page("b")])

    assert (await run(api)).found == [(["a", "b"], 10)]
    assert api.asked[:4] == [
        ("list", "500", ""),
        ("list", "500", "next"),
        ("list", "50", "next"),
        ("list", "5", "next"),
    ]


async def test_an_object_that_is_too_large_alone_is_a_failure(slept: list[float]) -> None:
    await run(
        Script(
            [
                ResponseTooLarge(0, "large"),
                ResponseTooLarge(0, "large"),
                ResponseTooLarge(0, "large"),
                ResponseTooLarge(0, "large"),
            ]
        )
    )

    assert slept == [0.5]


async def test_an_event_without_an_end_is_a_failure(monkeypatch: pytest.MonkeyPatch, slept: list[float]) -> None:
    monkeypatch.setattr(watch_module, "WATCH_LINE_BYTES", 10)
    api = Script([page()], [[b"x" * 8, b"x" * 8]])

    await run(api)

    assert slept == [0.5]


async def test_an_event_that_is_nested_too_deeply_is_reported() -> None:
    deep = event("ADDED")[:-3] + b', "spec": ' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}}\n"

    assert (await run(Script([page()], [[deep]]))).found[1:] == [("ADDED", "a", "Pod", "v1")]


async def test_a_kind_without_a_crd_is_known_to_be_missing_and_watched_once_it_is_installed() -> None:
    async def install(watch: Watch) -> None:
        await watch.known.wait()
        assert watch.is_missing
        watch.installed()

    missing = ObjectNotFound(404, "page not found")
    api = Script([missing, page("a")])

    assert (await run(api, ROUTES, then=install)).found == [([], LATEST), (["a"], 10)]


async def test_a_crd_that_is_served_a_moment_after_its_installation_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch_module, "_FIRST_BACKOFF", 0.0)

    async def install(watch: Watch) -> None:
        await watch.known.wait()
        watch.installed()

    api = Script([ObjectNotFound(404, "page not found")] * 3 + [page("a")])

    assert (await run(api, ROUTES, then=install)).found == [([], LATEST), (["a"], 10)]


async def test_a_crd_that_is_removed_takes_its_objects_along() -> None:
    api = Script([page("a"), ObjectNotFound(404, "page not found")], [ObjectNotFound(404, "page not found")])

    async def removed(watch: Watch) -> None:
        await watch.known.wait()
        assert watch.is_missing
        api.waiting.set()

    assert (await run(api, ROUTES, then=removed)).found == [(["a"], 10), ([], LATEST)]


async def test_without_word_of_crds_a_missing_kind_is_looked_for_at_intervals() -> None:
    api = Script([ObjectNotFound(404, "page not found"), page("a")])

    assert (await run(api, ROUTES, recheck=0.0)).found == [([], LATEST), (["a"], 10)]


class Silent(Script):
    """One whose watches stay open without a word after their last part."""

    async def _parts(self, answer: Sequence[bytes] | None) -> AsyncIterator[bytes]:
        for part in answer or ():
            yield part
        if answer is None:
            self.waiting.set()
        await asyncio.get_running_loop().create_future()


async def test_a_watch_on_which_nothing_comes_any_more_is_opened_again(
    monkeypatch: pytest.MonkeyPatch, slept: list[float]
) -> None:
    monkeypatch.setattr(silence_module, "WATCH_IDLE_SECONDS", 0.0)
    api = Silent([page("a")], [[event("BOOKMARK", version=21)]])

    await run(api)

    assert api.asked == [("list", "500", ""), ("watch", "10"), ("watch", "21")]


async def test_a_watch_on_which_nothing_has_come_yet_is_opened_again(
    monkeypatch: pytest.MonkeyPatch, slept: list[float]
) -> None:
    monkeypatch.setattr(silence_module, "WATCH_QUIET_SECONDS", 0.0)
    api = Silent([page("a")], [[]])

    await run(api)

    assert api.asked[:3] == [("list", "500", ""), ("watch", "10"), ("watch", "10")]


async def listen(silence: Silence, *, spoken: bool, ended: list[str], name: str) -> None:
    try:
        async with silence.bounded() as watch:
            if spoken:
                watch.heard()
            await asyncio.get_running_loop().create_future()
    except KubeError:
        ended.append(name)


async def test_when_one_watch_falls_silent_those_of_which_nothing_is_known_end_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(silence_module, "WATCH_IDLE_SECONDS", 0.01)
    silence, ended = Silence(), list[str]()
    quiet = asyncio.create_task(listen(silence, spoken=False, ended=ended, name="quiet"))
    await asyncio.sleep(0)
    silent = asyncio.create_task(listen(silence, spoken=True, ended=ended, name="silent"))
    await asyncio.sleep(0)
    monkeypatch.setattr(silence_module, "WATCH_IDLE_SECONDS", 100.0)
    speaking = asyncio.create_task(listen(silence, spoken=True, ended=ended, name="speaking"))

    await asyncio.gather(quiet, silent)

    assert ended == ["silent", "quiet"]
    assert not speaking.done()
    speaking.cancel()
    with suppress(asyncio.CancelledError):
        await speaking
