"""When a watch has last heard from the API server."""

from __future__ import annotations

from isvc_operator.kube.heard import Heard
from isvc_operator.telemetry.snapshot import WatchState
from tests.support.fakes import Seconds

ROUTES = "/apis/gateway.networking.k8s.io/v1/httproutes"
NEEDED = {ROUTES: "httproutes"}


def test_a_watch_that_was_never_open_is_silent_since_it_is_needed() -> None:
    seconds = Seconds(passed=1000.0)
    heard = Heard(seconds)
    heard.states(NEEDED)
    seconds.passed += 30

    assert heard.states(NEEDED) == (WatchState("httproutes", ROUTES, listed=False, silent=30.0, starts=0),)


def test_a_watch_that_ended_is_silent_since_it_last_heard() -> None:
    seconds = Seconds()
    heard = Heard(seconds)
    heard.listed(ROUTES)
    heard.opened(ROUTES)
    seconds.passed = 10.0
    heard.heard(ROUTES)
    seconds.passed = 12.0
    heard.ended(ROUTES)
    seconds.passed = 15.0
    assert heard.states(NEEDED) == (WatchState("httproutes", ROUTES, listed=True, silent=5.0, starts=1),)
    heard.opened(ROUTES)

    assert heard.states(NEEDED) == (WatchState("httproutes", ROUTES, listed=True, silent=0.0, starts=2),)


def test_an_open_watch_on_which_nothing_came_yet_is_not_silent_until_it_ends() -> None:
    seconds = Seconds()
    heard = Heard(seconds)
    heard.listed(ROUTES)
    heard.opened(ROUTES)
    seconds.passed = 500.0
    assert [state.silent for state in heard.states(NEEDED)] == [0.0]
    heard.ended(ROUTES)
    seconds.passed = 520.0

    assert [state.silent for state in heard.states(NEEDED)] == [20.0]


def test_a_list_alone_is_heard_too() -> None:
    seconds = Seconds(passed=7.0)
    heard = Heard(seconds)
    heard.listed(ROUTES)
    seconds.passed = 9.0

    assert heard.states(NEEDED) == (WatchState("httproutes", ROUTES, listed=True, silent=2.0, starts=0),)


def test_a_kind_that_was_removed_is_forgotten_and_begins_anew_when_it_is_back() -> None:
    seconds = Seconds()
    heard = Heard(seconds)
    heard.listed(ROUTES)
    heard.opened(ROUTES)
    heard.forget(ROUTES)
    seconds.passed = 1000.0
    assert heard.states({}) == ()

    assert heard.states(NEEDED) == (WatchState("httproutes", ROUTES, listed=False, silent=0.0, starts=1),)


def test_what_is_lost_is_lost_until_it_is_opened_again() -> None:
    seconds = Seconds()
    heard, other = Heard(seconds), "/api/v1/pods"
    heard.ended(ROUTES)  # which was never open: its CRD is missing
    for path in (ROUTES, other):
        heard.opened(path)
    assert heard.lost() == 0
    heard.ended(ROUTES)
    seconds.passed = 10.0
    heard.ended(ROUTES)  # an attempt that has failed
    heard.ended(other)
    seconds.passed = 15.0
    assert heard.lost() == 15
    heard.opened(ROUTES)
    assert heard.lost() == 5
    heard.forget(other)

    assert heard.lost() == 0
