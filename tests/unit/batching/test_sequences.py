"""Which worker has which sequence, how many there may be, and what becomes of those whose worker dies."""

from __future__ import annotations

import math
from collections import Counter, deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from data_plane.batching import sequences
from data_plane.batching.sequences import Sequence, SequenceLimits, Sequences
from data_plane.errors import SequenceLost, SequenceQueueFull, TooManySequences

LIMITS = SequenceLimits(max_sequences=4, max_idle_s=10.0, timeout_s=100.0, queue_size=2)


def begun(of: Sequences, *ids: str, now: float = 0.0) -> list[Sequence]:
    """Sequences whose first request is answered."""
    return [answered(of, one, now) for one in ids]


def answered(of: Sequences, sequence_id: str, now: float, *, starts: bool = False, ends: bool = False) -> Sequence:
    sequence = of.enter(sequence_id, now, starts=starts)
    of.leave(sequence, now, ends=ends)
    return sequence


def test_a_sequence_stays_in_its_worker_and_new_ones_go_where_there_are_fewest() -> None:
    of = Sequences("m", LIMITS, workers=2)

    a, b, c, d = begun(of, "a", "b", "c", "d")

    assert [one.worker for one in (a, b, c, d)] == [0, 1, 0, 1]
    assert [answered(of, one, 5.0) for one in "abcd"] == [a, b, c, d]
    assert len({one.number for one in (a, b, c, d)}) == 4


def test_one_sequence_too_many_is_refused_until_another_is_idle_for_long_enough() -> None:
    of = Sequences("m", LIMITS, workers=2)
    begun(of, "a", "b", "c", "d")

    with pytest.raises(TooManySequences, match=r"^Model m has 4 sequences already \(maxNumSequence\)"):
        of.enter("e", 9.9)

    assert answered(of, "e", 10.0).number == 5


def test_a_sequence_that_is_used_is_not_idle() -> None:
    of = Sequences("m", LIMITS, workers=1)
    (a,) = begun(of, "a")

    assert [answered(of, "a", now) for now in (9.0, 18.0, 27.0)] == [a, a, a]
    again = answered(of, "a", 37.0)
    assert again is not a
    assert [of.enter("a", now) for now in (46.0, 60.0)] == [again, again]  # the first is under way all the time


def test_a_sequence_ends_when_its_time_is_over_and_nothing_of_it_waits() -> None:
    of = Sequences("m", LIMITS, workers=1)
    a = of.enter("a", 0.0)
    of.enter("a", 99.0)

    of.leave(a, 101.0)
    assert of.enter("a", 101.0) is a  # one still waits, as in TorchServe
    of.leave(a, 102.0)
    of.leave(a, 102.0)

    assert of.enter("a", 102.0) is not a


def test_what_comes_behind_the_last_is_still_of_the_sequence() -> None:
    of = Sequences("m", LIMITS, workers=1)
    a = of.enter("a", 0.0)
    of.enter("a", 0.0)

    of.leave(a, 1.0, ends=True)

    assert of.enter("a", 1.0) is a


def test_only_so_many_requests_of_a_sequence_wait() -> None:
    of = Sequences("m", LIMITS, workers=1)
    a, *_ = (of.enter("a", 0.0) for _ in range(3))  # one is under way

    with pytest.raises(SequenceQueueFull, match=r"^2 requests of sequence a wait for model m already"):
        of.enter("a", 0.0)
    of.leave(a, 1.0)

    assert of.enter("a", 1.0) is a


def test_what_a_worker_had_is_lost_with_it_and_told() -> None:
    of = Sequences("m", LIMITS, workers=2)
    a, b = begun(of, "a", "b")
    under_way = of.enter("a", 1.0)

    of.lose(0, 2.0)
    of.leave(under_way, 2.0)

    assert (a.is_lost, b.is_lost) == (True, False)
    assert answered(of, "b", 2.0) is b
    for now in (2.0, 11.9):
        with pytest.raises(SequenceLost, match=r"^The worker of model m that had sequence a died"):
            of.enter("a", now)
    assert answered(of, "a", 12.0) is not a  # it would have ended by now


def test_who_says_that_a_sequence_begins_may_have_a_lost_ones_id() -> None:
    of = Sequences("m", LIMITS, workers=1)
    (a,) = begun(of, "a")
    of.lose(0, 1.0)

    again = answered(of, "a", 1.0, starts=True)

    assert again is not a
    assert answered(of, "a", 2.0) is again


def test_new_sequences_go_to_workers_that_live() -> None:
    of = Sequences("m", LIMITS, workers=2)
    of.lose(0, 0.0)

    assert [one.worker for one in begun(of, "a", "b")] == [1, 1]
    with pytest.raises(TooManySequences):  # its handler keeps state for two
        of.enter("c", 0.0)
    of.recover(0)
    assert answered(of, "c", 0.0).worker == 0


def test_without_any_worker_new_sequences_wait_for_one() -> None:
    of = Sequences("m", LIMITS, workers=1)
    of.lose(0, 0.0)

    (a,) = begun(of, "a")

    assert not a.is_lost


def test_ids_of_lost_sequences_are_forgotten_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequences, "MAX_LOST_SEQUENCES", 2)
    of = Sequences("m", LIMITS, workers=1)
    begun(of, "a", "b", "c")

    of.lose(0, 0.0)

    assert answered(of, "a", 1.0).id == "a"
    for lost in "bc":
        with pytest.raises(SequenceLost):
            of.enter(lost, 1.0)


class Machine(RuleBasedStateMachine):
    """Requests come, are answered, workers die and come back, and time goes by, in any order."""

    MAX, WORKERS, QUEUE, IDLE_S, TIMEOUT_S = 4, 3, 2, 5.0, 12.0

    def __init__(self) -> None:
        super().__init__()
        limits = SequenceLimits(self.MAX, self.IDLE_S, self.TIMEOUT_S, self.QUEUE)
        self.of = Sequences("m", limits, self.WORKERS)
        self.now = 0.0
        self.under_way: deque[Sequence] = deque()
        self.alive: dict[str, Sequence] = {}  # as far as a caller can know
        self.used_at: dict[int, float] = {}
        self.lost_at: dict[str, float] = {}

    @rule(sequence_id=st.sampled_from("abcdefgh"), starts=st.booleans())
    def enter(self, sequence_id: str, starts: bool) -> None:
        known = self.alive.get(sequence_id)
        pending = Counter(one.number for one in self.under_way)
        try:
            sequence = self.of.enter(sequence_id, self.now, starts=starts)
        except SequenceLost:
            assert not starts
            assert self.now < self.lost_at[sequence_id] + self.IDLE_S
            return
        except SequenceQueueFull:
            assert known is not None
            assert pending[known.number] > self.QUEUE
            return
        except TooManySequences:
            assert known is None or not self.must_live(known)
            return
        assert starts or self.now >= self.lost_at.get(sequence_id, -math.inf) + self.IDLE_S or known is sequence
        if known is not None and self.must_live(known):
            assert sequence is known
        assert not sequence.is_lost
        self.alive[sequence_id] = sequence
        self.lost_at.pop(sequence_id, None)
        self.used_at.setdefault(sequence.number, self.now)
        self.under_way.append(sequence)

    def must_live(self, sequence: Sequence) -> bool:
        if sequence.is_lost:
            return False
        if sequence in self.under_way:
            return True
        idle = self.now - self.used_at[sequence.number]
        return idle < self.IDLE_S and self.now - sequence.began_at < self.TIMEOUT_S

    @precondition(lambda self: self.under_way)
    @rule(turn=st.integers(0, 20))
    def leave(self, turn: int) -> None:
        self.under_way.rotate(turn)
        sequence = self.under_way.popleft()
        self.used_at[sequence.number] = self.now
        self.of.leave(sequence, self.now)

    @rule(worker=st.integers(0, WORKERS - 1))
    def lose(self, worker: int) -> None:
        had = [one for one in self.alive.values() if one.worker == worker and self.must_live(one)]
        self.of.lose(worker, self.now)
        for one in had:
            assert one.is_lost
            self.lost_at[one.id] = self.now
        self.alive = {name: one for name, one in self.alive.items() if one.worker != worker}

    @rule(worker=st.integers(0, WORKERS - 1))
    def recover(self, worker: int) -> None:
        self.of.recover(worker)

    @rule(seconds=st.sampled_from([0.5, 2.0, 5.0, 13.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def limits_hold(self) -> None:
        living = {one.number: one for one in self.alive.values() if self.must_live(one)}
        assert len(living) <= self.MAX
        assert max(Counter(one.worker for one in living.values()).values(), default=0) <= -(-self.MAX // self.WORKERS)


TestAnyOrder = Machine.TestCase
TestAnyOrder.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
