"""Which events change the health of a model, in each of its states."""

from __future__ import annotations

import itertools

import pytest

from data_plane.errors import NotReady
from data_plane.health import Event, Health, State, after
from data_plane.model import IndexEntry, Models
from tests.support.fake_models import FakeModel

# A row for each state, a column for each event: the next state, or . where the event is ignored.
_TABLE = """
            LOAD     READY  WORKERS_LOST  UNREADY  UNLOAD     FAIL
unknown     LOADING  .      .             .        .          FAILED
LOADING     LOADING  READY  .             UNREADY  UNLOADING  FAILED
READY       LOADING  READY  RECOVERING    UNREADY  UNLOADING  FAILED
RECOVERING  LOADING  READY  RECOVERING    UNREADY  UNLOADING  FAILED
UNREADY     LOADING  READY  .             UNREADY  UNLOADING  FAILED
UNLOADING   LOADING  .      .             .        UNLOADING  FAILED
FAILED      LOADING  .      .             .        UNLOADING  FAILED
"""
_HEAD, *_ROWS = (line.split() for line in _TABLE.strip().splitlines())
_CASES = [(row[0], event, to) for row in _ROWS for event, to in zip(_HEAD, row[1:], strict=True)]


def health_of(name: str) -> Health | None:
    return None if name == "unknown" else Health(State[name], "before")


@pytest.mark.parametrize(("state", "event", "to"), _CASES, ids=["-".join(case[:2]) for case in _CASES])
def test_an_event_leads_to_the_next_state_or_is_ignored(state: str, event: str, to: str) -> None:
    before = health_of(state)

    assert after(before, Event[event], "reason") == (before if to == "." else Health(State[to], "reason"))


def test_the_table_has_every_state_and_every_event() -> None:
    states = [None, *State]

    assert {(health_of(state) and State[state], Event[event]) for state, event, _ in _CASES} == set(
        itertools.product(states, Event)
    )


# State, whether it accepts requests, whether the server is ready with it, its state in the index of the v2 protocol.
_SEEN = [
    ("LOADING", False, False, "LOADING"),
    ("READY", True, True, "READY"),
    ("RECOVERING", True, False, "UNAVAILABLE"),
    ("UNREADY", False, False, "UNAVAILABLE"),
    ("UNLOADING", False, False, "UNAVAILABLE"),
    ("FAILED", False, True, "UNAVAILABLE"),
]
_WAYS = {
    "LOADING": [Event.LOAD],
    "READY": [],
    "RECOVERING": [Event.WORKERS_LOST],
    "UNREADY": [Event.UNREADY],
    "UNLOADING": [Event.UNLOAD],
    "FAILED": [Event.FAIL],
}


@pytest.mark.parametrize(("state", "accepts", "ready", "in_index"), _SEEN, ids=[row[0] for row in _SEEN])
def test_a_state_is_what_clients_see(state: str, accepts: bool, ready: bool, in_index: str) -> None:
    models = Models()
    models.add(FakeModel())
    for event in _WAYS[state]:
        models.record("m", event, "reason")
    reason = "" if state == "READY" else "reason"

    assert models.ready is ready
    assert models.is_ready("m") is (state == "READY")
    assert models.index() == [IndexEntry("m", "1", in_index, reason)]
    assert models.reasons == ({} if state == "READY" else {"m": "reason"})
    if accepts:
        assert models.get("m").name == "m"
    else:
        with pytest.raises(NotReady, match=r"^Model with name m is not ready: it reason\.$"):
            models.get("m")


def test_the_table_of_what_clients_see_has_every_state() -> None:
    assert [row[0] for row in _SEEN] == [state.name for state in State]


def test_recording_returns_whether_the_health_changed() -> None:
    models = Models(["m"])
    events = [
        (Event.READY, ""),
        (Event.READY, ""),
        (Event.WORKERS_LOST, "a"),
        (Event.WORKERS_LOST, "b"),
        (Event.LOAD, ""),
    ]

    assert [models.record("m", *event) for event in events] == [True, False, True, True, True]
    assert [models.record("other", event, "a") for event in (Event.UNREADY, Event.READY)] == [False, False]
    assert models.names == ("m",)
