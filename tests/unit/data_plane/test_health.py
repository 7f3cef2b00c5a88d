"""Which states of a model may follow, and what clients see of each."""

from __future__ import annotations

import itertools

import pytest

from data_plane.errors import NotReady
from data_plane.health import Health, State, after
from data_plane.model import IndexEntry, Models
from tests.support.fake_models import FakeModel

# A row for each state, a column for each one that is recorded then: whether it follows, or is ignored.
_TABLE = """
            LOADING  READY  RECOVERING  UNREADY  UNLOADING  FAILED
unknown     yes      .      .           .        .          yes
LOADING     yes      yes    .           yes      yes        yes
READY       yes      yes    yes         yes      yes        yes
RECOVERING  yes      yes    yes         yes      yes        yes
UNREADY     yes      yes    .           yes      yes        yes
UNLOADING   yes      .      .           .        yes        yes
FAILED      yes      .      .           .        yes        yes
"""
_HEAD, *_ROWS = (line.split() for line in _TABLE.strip().splitlines())
_CASES = [(row[0], to, follows == "yes") for row in _ROWS for to, follows in zip(_HEAD, row[1:], strict=True)]


def health_of(name: str) -> Health | None:
    return None if name == "unknown" else Health(State[name], "before")


@pytest.mark.parametrize(("state", "to", "follows"), _CASES, ids=["-".join(case[:2]) for case in _CASES])
def test_a_state_follows_or_is_ignored(state: str, to: str, follows: bool) -> None:
    before = health_of(state)

    assert after(before, State[to], "reason") == (Health(State[to], "reason") if follows else before)


def test_the_table_has_every_state_twice() -> None:
    assert {(health_of(state) and State[state], State[to]) for state, to, _ in _CASES} == set(
        itertools.product([None, *State], State)
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


@pytest.mark.parametrize(("state", "accepts", "ready", "in_index"), _SEEN, ids=[row[0] for row in _SEEN])
def test_a_state_is_what_clients_see(state: str, accepts: bool, ready: bool, in_index: str) -> None:
    models = Models()
    models.add(FakeModel())
    models.record("m", State[state], "" if state == "READY" else "reason")
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


def test_a_model_that_is_loaded_by_request_leaves_the_server_ready_for_the_others() -> None:
    models = Models(["first", "second"])
    ready = [models.ready]
    for event in [
        ("first", State.READY), ("second", State.READY),  # at the start, all of them are waited for
        ("third", State.LOADING), ("first", State.UNLOADING), ("second", State.UNLOADING), ("third", State.READY),
        ("third", State.RECOVERING),
    ]:  # fmt: skip
        models.record(*event)
        ready.append(models.ready)

    assert ready == [False, False, True, True, True, False, True, False]


def test_recording_returns_whether_the_health_changed() -> None:
    models = Models(["m"])
    events = [
        (State.READY, ""),
        (State.READY, ""),
        (State.RECOVERING, "a"),
        (State.RECOVERING, "b"),
        (State.LOADING, ""),
    ]

    assert [models.record("m", *event) for event in events] == [True, False, True, True, True]
    assert [models.record("other", event, "a") for event in (State.UNREADY, State.READY)] == [False, False]
    assert models.names == ("m",)
