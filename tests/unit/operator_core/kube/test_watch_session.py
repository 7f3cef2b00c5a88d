"""A watch of one kind by kopf: what it asks for, what it reports, and what it does when the API server fails."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from isvc.source.follow import follow
from isvc_operator.api.kinds import kind_named
from isvc_operator.api.names import LABEL_SERVICE
from isvc_operator.kube.errors import KubeError, NotPermitted, ObjectNotFound, ResponseTooLarge
from isvc_operator.kube.informer import kopf_settings as settings_module
from isvc_operator.kube.informer import watch_session as session_module
from isvc_operator.kube.informer.watch_session import WatchSession
from isvc_operator.kube.informer.watching import LATEST, Collection, OlderState, Watch, Watching
from isvc_operator.kube.requests import ApiRequest
from isvc_operator.manifests import Manifest
from tests.support.fakes import Seconds

PODS = Collection(kind_named("Pod"), "models")
ROUTES = Collection(kind_named("HTTPRoute"))
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MISSING = ObjectNotFound(404, "page not found")


@dataclass
class Script:
    """An API server with answers to lists and watches, in their order. After the last, a watch stays open.

    A list is a page, or an error. A watch is a list of parts, or an error. `crds` are those that are installed.
    """

    lists: list[Any]
    watches: list[Any] = field(default_factory=list)
    crds: tuple[str, ...] = ()
    asked: list[tuple[str, ...]] = field(default_factory=list)
    selected: list[tuple[str | None, str | None]] = field(default_factory=list)  # by label and by field
    waiting: asyncio.Event = field(default_factory=asyncio.Event)
    ended: int = 0  # of the watches

    async def send(self, request: ApiRequest) -> str:
        if request.path == CRDS:
            return json.dumps(page(*self.crds))
        query = self._note(request)
        self.asked.append(("list", query["limit"], query.get("continue", "")))
        if not self.lists:
            return await self._forever()
        answer = self.lists.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return json.dumps(answer)

    @asynccontextmanager
    async def stream(self, request: ApiRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        self.asked.append(("watch", self._note(request)["resourceVersion"]))
        answer = self.watches.pop(0) if self.watches else None
        if isinstance(answer, Exception):
            raise answer
        try:
            yield self._parts(answer)
        finally:
            self.ended += 1

    async def _parts(self, answer: Sequence[bytes] | None) -> AsyncIterator[bytes]:
        if answer is None:
            await self._forever()
        for part in answer or ():
            yield part

    def _note(self, request: ApiRequest) -> dict[str, str]:
        query = dict(request.query)
        self.selected.append((query.get("labelSelector"), query.get("fieldSelector")))
        return query

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


def line(change: str, body: Manifest) -> bytes:
    """As the API server writes it: without spaces, and the type first."""
    return json.dumps({"type": change, "object": body}, separators=(",", ":")).encode() + b"\n"


def event(change: str, name: str = "a", version: int = 11) -> bytes:
    metadata = {"name": name, "resourceVersion": str(version)}
    return line(change, {"kind": "Pod", "apiVersion": "v1", "metadata": metadata})


def failure(code: int, message: str = "expired") -> bytes:
    return line("ERROR", {"kind": "Status", "apiVersion": "v1", "message": message, "code": code})


@pytest.fixture
def slept() -> list[float]:
    """The back-off of the watch, which does not wait. kopf's own moment between two lists is not among it."""
    return []


async def run(
    api: Script,
    collection: Collection = PODS,
    slept: list[float] | None = None,
    *,
    recheck: float | None = None,
    knows: Callable[[Manifest], bool] = lambda _: False,
    then: Callable[[WatchSession, Watch], Awaitable[None]] | None = None,
) -> Taken:
    """Run a watch until it waits for more."""
    taken, slept = Taken(), [] if slept is None else slept

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    clock = asyncio.get_running_loop().time
    session = WatchSession(Watching(api, clock, lambda: 1.0, recheck, knows=knows, sleep=sleep), taken)
    task = asyncio.create_task(follow(session, collection, taken))
    if then is not None:
        await then(session, session.watch_of(collection))
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


async def test_a_watch_that_kopf_leaves_open_ends_when_it_closes_its_session() -> None:
    api = Script([], [[event("ADDED")]])
    session = WatchSession(Watching(api, asyncio.get_running_loop().time, lambda: 1.0), Taken())
    response = await session.request("get", "https://kubernetes/api/v1/pods?watch=true&resourceVersion=10")
    assert await anext(response.iter_chunked(1)) == event("ADDED")
    assert api.ended == 0

    await session.close()

    assert api.ended == 1


@pytest.mark.parametrize(
    ("collection", "label", "fields"),
    [
        (PODS, LABEL_SERVICE, None),
        (Collection(kind_named("InferenceService")), None, None),
        (Collection(kind_named("PodDisruptionBudget"), "models"), None, None),
        (Collection(kind_named("Event"), "models", "involvedObject.kind=Pod"), None, "involvedObject.kind=Pod"),
        (  # as the dashboard watches it, which shows none of others
            Collection(replace(kind_named("PodDisruptionBudget"), optional=True, others_watched=False), "models"),
            LABEL_SERVICE,
            None,
        ),
    ],
    ids=["by its label", "all of it", "also those of others", "by a field", "without those of others"],
)
async def test_of_a_kind_is_watched_what_its_collection_selects(
    collection: Collection, label: str | None, fields: str | None
) -> None:
    watches, api = list[Watch](), Script([page("a")])

    async def remember(_: WatchSession, watch: Watch) -> None:
        watches.append(watch)

    assert (await run(api, collection, then=remember)).found == [(["a"], 10)]
    assert [(watch.known.is_set(), watch.is_listed, watch.opened) for watch in watches] == [(True, True, 1)]
    assert api.selected == [(label, fields)] * 2


async def test_a_watch_that_ends_goes_on_after_its_last_event_or_bookmark(slept: list[float]) -> None:
    api = Script(
        [page()], [[event("MODIFIED", version=20) + event("BOOKMARK", version=25)], [event("DELETED", version=26)]]
    )

    taken = await run(api, slept=slept)

    assert [item[0] for item in taken.found] == [[], "MODIFIED", "DELETED"]
    assert api.asked[1:] == [("watch", "10"), ("watch", "25"), ("watch", "26")]
    assert slept == []


async def test_a_version_that_is_known_already_is_passed_over_and_the_watch_goes_on_after_it() -> None:
    events = event("ADDED", version=20) + event("DELETED", version=21) + event("ADDED", version=22)
    api = Script([page()], [[events]])

    taken = await run(api, knows=lambda body: body["metadata"]["resourceVersion"] != "20")

    assert [item[0] for item in taken.found] == [[], "ADDED", "DELETED"]
    assert api.asked[1:] == [("watch", "10"), ("watch", "22")]


@pytest.mark.parametrize("expired", [[failure(410)], KubeError(410, "expired")], ids=["in the watch", "at once"])
async def test_a_version_that_has_expired_makes_it_list_again(expired: Any, slept: list[float]) -> None:
    api = Script([page("a", "gone"), page("a", version=50)], [expired])

    taken = await run(api, slept=slept)

    assert taken.found == [(["a", "gone"], 10), (["a"], 50)]
    assert api.asked == [("list", "500", ""), ("watch", "10"), ("list", "500", ""), ("watch", "50")]
    assert slept == []


async def test_after_an_error_of_a_watch_that_says_nothing_of_what_was_missed_it_lists_again(
    slept: list[float],
) -> None:
    api = Script([page("a"), page()], [[failure(500, "cannot be decoded")]])

    assert (await run(api, slept=slept)).found == [(["a"], 10), ([], 10)]
    assert slept == [0.5]


async def test_a_continue_token_that_has_expired_makes_the_list_begin_anew(slept: list[float]) -> None:
    api = Script([page("a", more="next"), KubeError(410, "expired"), page("b")])

    assert (await run(api, slept=slept)).found == [(["b"], 10)]


async def test_after_a_lost_connection_it_lists_again_once(slept: list[float]) -> None:
    """Whatever the API server was restored to, what is cached is what it has."""
    lost = KubeError(0, "no response")
    api = Script([page("a"), lost, page("b", version=12)], [lost, [], []])

    taken = await run(api, slept=slept)

    assert taken.found == [(["a"], 10), (["b"], 12)]
    assert api.asked[-4:] == [("list", "500", ""), ("watch", "12"), ("watch", "12"), ("watch", "12")]
    assert slept == [0.5, 1.0, 2.0, 4.0]


@pytest.mark.parametrize(
    "ended", [KubeError(0, "no response"), KubeError(410, "expired")], ids=["not reached", "expired"]
)
@pytest.mark.parametrize("told", ["list", "event", "bookmark"])
async def test_a_state_that_is_older_than_what_was_seen_before_ends_the_watch(ended: KubeError, told: str) -> None:
    """After a restore of etcd no watch from a version that it has not reached yet would report anything."""
    said = {"list": [], "event": [[event("ADDED", version=12)]], "bookmark": [[event("BOOKMARK", version=12)]]}[told]
    first = 12 if told == "list" else 10
    api = Script([page("a", version=first), page("a", version=11)], [*said, ended])

    with pytest.raises(OlderState, match="is at resource version 11 and was at 12 before"):
        await run(api)


async def test_a_busy_api_server_is_left_alone_for_as_long_as_it_asks(slept: list[float]) -> None:
    busy = KubeError(429, "busy", retry_after=7.0)
    api = Script([busy, page("a"), page("a")], [busy])

    await run(api, slept=slept)

    assert slept == [7.0, 7.0]
    listed = ("list", "500", "")
    assert api.asked == [listed, listed, ("watch", "10"), listed, ("watch", "10")]


async def test_failures_are_warned_of_when_they_do_not_end(
    slept: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    await run(Script([*[KubeError(403, "forbidden")] * 3, page()]), slept=slept)

    text = "/api/v1/namespaces/models/pods cannot be watched, and is tried again: forbidden"
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("INFO", text),
        ("INFO", text),
        ("WARNING", text),
    ]


@pytest.mark.parametrize("then", [[], [page()], [MISSING]], ids=["for good", "until it is listed", "without the CRD"])
async def test_a_namespace_that_may_not_be_listed_is_named_once_and_nobody_waits_for_it(
    then: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    found = list[tuple[WatchSession, Watch]]()

    async def remember(*known: Any) -> None:
        found.append(known)

    await run(Script([NotPermitted(403, "pods is forbidden")] * 5 + then), recheck=0.0, then=remember)

    (session, watch), *_ = found
    assert watch.known.is_set()
    assert (watch.is_refused, session.is_complete("models")) == (not then, bool(then))
    assert [record.message for record in caplog.records if "is not there" not in record.message] == [
        "namespace models cannot be watched: pods is forbidden; create it, and allow this account to list and watch "
        "there (docs/install.md). It is tried again, and the other namespaces do not wait for it"
    ]


@pytest.mark.parametrize(
    ("collection", "refusals"), [(PODS, 2), (ROUTES, 5)], ids=["twice, as by a server that starts", "in the cluster"]
)
async def test_what_is_refused_is_waited_for_otherwise(collection: Collection, refusals: int) -> None:
    watches = list[Watch]()

    async def remember(_: WatchSession, watch: Watch) -> None:
        watches.append(watch)

    await run(Script([NotPermitted(403, "forbidden")] * refusals), collection, then=remember)

    assert [(watch.known.is_set(), watch.is_refused) for watch in watches] == [(False, False)]


async def test_a_watch_that_is_refused_is_not_silent() -> None:
    """No restart would help."""
    seconds, api = Seconds(), Script([NotPermitted(403, "forbidden")] * 3)

    async def sleep(_: float) -> None:
        seconds.passed += 100.0

    session = WatchSession(Watching(api, seconds, lambda: 1.0, sleep=sleep), Taken())
    listing = asyncio.create_task(session.request("get", f"https://kubernetes{PODS.path}?limit=500"))
    await api.waiting.wait()
    listing.cancel()

    assert session.watch_of(PODS).state().silent == 100.0


async def test_a_page_that_is_too_large_is_asked_for_in_smaller_ones() -> None:
    api = Script([page("a", more="next"), ResponseTooLarge(0, "large"), ResponseTooLarge(0, "large"), page("b")])

    assert (await run(api)).found == [(["a", "b"], 10)]
    assert api.asked[:4] == [
        ("list", "500", ""),
        ("list", "500", "next"),
        ("list", "50", "next"),
        ("list", "5", "next"),
    ]


async def test_so_is_one_whose_objects_take_much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    many = page("a", more="next")
    many["items"][0]["spec"] = {"volumes": [{}] * 100}
    monkeypatch.setattr(session_module, "LIST_BYTES", 100 * 128)
    api = Script([page("a", "b", more="next"), many, many, many, many, page("b")])

    assert (await run(api)).found == [(["a", "b", "a", "b"], 10)]
    assert [asked[1] for asked in api.asked if asked[0] == "list"] == ["500", "500", "50", "5", "1", "1"]


async def test_an_object_that_is_too_large_alone_is_a_failure(slept: list[float]) -> None:
    await run(Script([ResponseTooLarge(0, "large")] * 4), slept=slept)

    assert slept == [0.5]


@pytest.mark.parametrize(
    "line", [b"<html>\n", b"[]\n", b"{}\n", b'{"type": "ADDED", "object": {"metadata": {}}}\n'], ids=str
)
async def test_what_is_no_event_is_a_failure(line: bytes, slept: list[float]) -> None:
    assert (await run(Script([page("a"), page("b")], [[line]]), slept=slept)).found == [(["a"], 10), (["b"], 10)]
    assert slept == [0.5]


@pytest.mark.parametrize("response", [{}, {"items": []}, {"metadata": {}, "items": None}, []], ids=str)
async def test_what_is_no_list_is_a_failure(response: Any, slept: list[float]) -> None:
    assert (await run(Script([response, page("a")]), slept=slept)).found == [(["a"], 10)]
    assert slept == [0.5]


async def test_an_event_without_an_end_is_a_failure(monkeypatch: pytest.MonkeyPatch, slept: list[float]) -> None:
    monkeypatch.setattr(session_module, "WATCH_LINE_BYTES", 10)
    api = Script([page()], [[b"x" * 8, b"x" * 8]])

    await run(api, slept=slept)

    assert slept == [0.5]


async def test_an_event_that_is_nested_too_deeply_is_reported() -> None:
    deep = event("ADDED")[:-3] + b', "spec": ' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}}\n"

    assert (await run(Script([page()], [[deep]]))).found[1:] == [("ADDED", "a", "Pod", "v1")]


async def install(session: WatchSession, watch: Watch) -> None:
    """Let the session hear of the CRDs once the kind is known to be missing."""
    await watch.known.wait()
    assert watch.is_missing
    await session.request("get", f"https://api{CRDS}?limit=500")


async def test_a_crd_that_is_served_a_moment_after_its_installation_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session_module, "_FIRST_BACKOFF", 0.0)
    api = Script([MISSING] * 3 + [page("a")], crds=("httproutes.gateway.networking.k8s.io",))

    assert (await run(api, ROUTES, then=install)).found == [([], LATEST), (["a"], 10)]


async def test_a_crd_that_is_removed_takes_its_objects_along() -> None:
    watches = list[Watch]()

    async def remember(_: WatchSession, watch: Watch) -> None:
        watches.append(watch)

    api = Script([page("a"), MISSING], [MISSING])

    assert (await run(api, ROUTES, recheck=0.0, then=remember)).found == [(["a"], 10), ([], LATEST)]
    assert [(watch.is_missing, watch.lost) for watch in watches] == [(True, None)]


async def test_without_word_of_crds_a_missing_kind_is_looked_for_at_intervals() -> None:
    api = Script([MISSING, page("a")])

    assert (await run(api, ROUTES, recheck=0.0)).found == [([], LATEST), (["a"], 10)]


@pytest.mark.parametrize(("optional", "level"), [("HTTPRoute", "INFO"), ("InferenceService", "WARNING")])
async def test_a_missing_kind_is_named_once_and_is_a_problem_only_if_it_has_to_be_there(
    caplog: pytest.LogCaptureFixture, optional: str, level: str
) -> None:
    caplog.set_level(logging.INFO)
    collection = Collection(kind_named(optional))

    await run(Script([MISSING] * 2 + [page()]), collection, recheck=0.0)

    text = f"{collection.path} is not there to watch"
    assert [(record.levelname, record.message) for record in caplog.records] == [(level, text)]


async def test_a_watch_that_the_api_server_refuses_for_long_is_tried_less_often_and_warned_of(
    slept: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    """Each list that it takes to open it again reads all objects."""
    refused = KubeError(500, "no watch today")

    await run(Script([page()] * 7, [refused] * 6), slept=slept)

    assert slept == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0]
    assert {record.levelname for record in caplog.records} == {"WARNING"}


class Silent(Script):
    """One whose watches stay open without a word after their last part."""

    async def _parts(self, answer: Sequence[bytes] | None) -> AsyncIterator[bytes]:
        for part in answer or ():
            yield part
        if answer is None:
            self.waiting.set()
        await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize(
    ("heard", "version"),
    [([event("BOOKMARK", version=21)], "21"), ([], "10")],
    ids=["from a bookmark", "from the list"],
)
async def test_a_watch_on_which_nothing_comes_any_more_is_opened_again(
    monkeypatch: pytest.MonkeyPatch, slept: list[float], heard: list[bytes], version: str
) -> None:
    monkeypatch.setattr(settings_module, "WATCH_IDLE_SECONDS", 0.05)
    api = Silent([page("a")], [heard])

    await run(api, slept=slept)

    assert api.asked[:3] == [("list", "500", ""), ("watch", "10"), ("watch", version)]
    assert slept == []
