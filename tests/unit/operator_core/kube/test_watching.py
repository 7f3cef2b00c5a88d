"""What is known of a watch: whether it is open, and when something came on it last."""

from __future__ import annotations

import pytest

from isvc_operator.api.kinds import kind_named
from isvc_operator.kube.informer.watching import Collection, Watch
from isvc_operator.telemetry.snapshot import WatchState
from tests.support.fakes import Seconds

ROUTES = Collection(kind_named("HTTPRoute"))


def state(*, listed: bool = False, silent: float = 0.0, starts: int = 0) -> WatchState:
    return WatchState("httproutes", ROUTES.path, listed, silent, starts)


@pytest.mark.parametrize(
    ("collection", "path"),
    [
        (ROUTES, "/apis/gateway.networking.k8s.io/v1/httproutes"),
        (Collection(kind_named("Pod"), "models"), "/api/v1/namespaces/models/pods"),
        (
            Collection(kind_named("Event"), "models", "involvedObject.kind=Pod"),
            "/api/v1/namespaces/models/events?fieldSelector=involvedObject.kind=Pod",
        ),
    ],
    ids=["of the cluster", "of a namespace", "of some fields"],
)
def test_a_collection_has_the_path_that_lists_it(collection: Collection, path: str) -> None:
    assert collection.path == path


def test_a_watch_that_was_never_open_is_silent_since_it_is_needed() -> None:
    seconds = Seconds(passed=1000.0)
    watch = Watch(ROUTES, seconds)
    assert watch.state() == state()
    seconds.passed += 30

    assert watch.state() == state(silent=30.0)


def test_a_watch_that_ended_is_silent_since_it_last_heard() -> None:
    seconds = Seconds()
    watch = Watch(ROUTES, seconds)
    watch.opens()
    seconds.passed = 10.0
    watch.heard()
    seconds.passed = 12.0
    watch.ends()
    seconds.passed = 15.0
    assert watch.state() == state(silent=5.0, starts=1)
    watch.opens()

    assert watch.state() == state(starts=2)


def test_an_open_watch_on_which_nothing_came_yet_is_silent_since_it_was_opened() -> None:
    """Which is never for long: it is opened again when nothing comes."""
    seconds = Seconds(passed=7.0)
    watch = Watch(ROUTES, seconds)
    seconds.passed = 100.0
    watch.opens()
    seconds.passed = 190.0

    assert watch.state() == state(silent=90.0, starts=1)


def test_a_watch_that_is_opened_again_because_nothing_came_is_not_counted() -> None:
    watch = Watch(ROUTES, Seconds())
    watch.opens()
    watch.ends()
    watch.is_quiet = True
    watch.opens()
    watch.ends()
    watch.opens()

    assert watch.opened == 2


def test_a_list_alone_is_heard_too() -> None:
    seconds = Seconds(passed=7.0)
    watch = Watch(ROUTES, seconds)
    seconds.passed = 8.0
    watch.is_listed = True
    watch.heard()
    seconds.passed = 9.0

    assert watch.state() == state(listed=True, silent=1.0)


def test_what_is_lost_is_lost_until_it_is_opened_again() -> None:
    seconds, found = Seconds(), list[float | None]()
    watch = Watch(ROUTES, seconds)
    watch.ends()  # which was never open: its CRD is missing
    found.append(watch.lost)
    watch.opens()
    found.append(watch.lost)
    seconds.passed = 5.0
    watch.ends()
    seconds.passed = 10.0
    watch.ends()  # an attempt that has failed
    found.append(watch.lost)
    watch.opens()
    found.append(watch.lost)

    assert found == [None, None, 5.0, None]
