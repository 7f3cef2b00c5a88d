"""Assigns sequences of requests to workers, and limits their number. Pure: the caller passes the time.

As in TorchServe, a sequence is the requests with one id to a model that keeps state between them. It starts with its
first request, stays in one worker, and ends after a time without requests. When its worker dies, its state is lost:
later requests of the sequence fail, so that none is processed with an empty state.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from data_plane.errors import SequenceLost, SequenceQueueFull, TooManySequences
from data_plane.limits import MAX_LOST_SEQUENCES


@dataclass(frozen=True, slots=True)
class SequenceLimits:
    """The settings of an archive's YAML; times in seconds."""

    max_sequences: int  # alive at a time
    max_idle_s: float  # without a request; then it ends
    timeout_s: float = math.inf  # since its first request; then it ends, as soon as none of its requests waits
    queue_size: int = 1  # requests of one sequence that wait behind the one under way


@dataclass(frozen=True, slots=True)
class SequenceHeaders:
    """The headers with which clients identify sequences, in lower case."""

    id: bytes = b"ts_request_sequence_id"
    start: bytes = b"ts_request_sequence_start"
    end: bytes = b"ts_request_sequence_end"


@dataclass(slots=True, eq=False)
class Sequence:
    """A sequence that is alive, or was until its worker died."""

    id: str
    number: int  # unique in the model
    worker: int
    began_at: float
    pending: int = 0  # requests under way or waiting
    idle_since: float = math.inf
    is_lost: bool = False


class Sequences:
    """The sequences of one version of a model. Each is in one of its workers, which are numbered from 0."""

    def __init__(self, model: str, limits: SequenceLimits, workers: int) -> None:
        self._model = model
        self._limits = limits
        self._places = -(-limits.max_sequences // workers)  # of a worker: its handler keeps state for so many
        self._in_worker = [0] * workers
        self._begun = 0
        self._down: set[int] = set()
        self._alive: dict[str, Sequence] = {}
        self._idle: dict[str, Sequence] = {}  # the one that is idle for longest comes first
        self._timed: dict[str, Sequence] = {}  # those with time left, the oldest first
        self._lost: dict[str, float] = {}  # when each is forgotten, the next one first

    def enter(self, sequence_id: str, now: float, *, starts: bool = False) -> Sequence:
        """Return the sequence of a new request; `leave` it when the response is sent.

        `starts`: the request says that it is the first of its sequence, so it may take the id of a lost one.
        Raises SequenceLost, SequenceQueueFull and TooManySequences.
        """
        self._expire(now)
        if sequence_id in self._lost:
            if not starts:
                raise SequenceLost(self._model, sequence_id)
            del self._lost[sequence_id]
        sequence = self._alive.get(sequence_id) or self._begin(sequence_id, now)
        if sequence.pending > self._limits.queue_size:
            raise SequenceQueueFull(self._model, sequence_id, self._limits.queue_size)
        sequence.pending += 1
        self._idle.pop(sequence_id, None)
        return sequence

    def leave(self, sequence: Sequence, now: float, *, ends: bool = False) -> None:
        """Record that a response was sent; `ends`: its request was the last of its sequence."""
        sequence.pending -= 1
        if sequence.is_lost or sequence.pending:
            return
        if ends or self._is_overdue(sequence, now):
            self._end(sequence)
        else:
            sequence.idle_since = now
            self._idle[sequence.id] = sequence

    def lose(self, worker: int, now: float) -> None:
        """Record that a worker died: its sequences are lost, and new ones go to other workers until it is back."""
        self._down.add(worker)
        for sequence in [one for one in self._alive.values() if one.worker == worker]:
            sequence.is_lost = True
            self._end(sequence)
            self._lost.pop(sequence.id, None)
            self._lost[sequence.id] = now + self._limits.max_idle_s
        while len(self._lost) > MAX_LOST_SEQUENCES:
            del self._lost[next(iter(self._lost))]

    def recover(self, worker: int) -> None:
        self._down.discard(worker)

    def _begin(self, sequence_id: str, now: float) -> Sequence:
        up = [worker for worker in range(len(self._in_worker)) if worker not in self._down]
        worker = min(up or range(len(self._in_worker)), key=self._in_worker.__getitem__)
        if len(self._alive) >= self._limits.max_sequences or self._in_worker[worker] >= self._places:
            raise TooManySequences(self._model, self._limits.max_sequences)
        self._begun += 1
        sequence = self._alive[sequence_id] = Sequence(sequence_id, self._begun, worker, now)
        self._in_worker[worker] += 1
        if self._limits.timeout_s < math.inf:
            self._timed[sequence_id] = sequence
        return sequence

    def _end(self, sequence: Sequence) -> None:
        del self._alive[sequence.id]
        self._idle.pop(sequence.id, None)
        self._timed.pop(sequence.id, None)
        self._in_worker[sequence.worker] -= 1

    def _expire(self, now: float) -> None:
        """End the sequences that have timed out; each is checked once for each of its timeouts."""
        while self._idle and now - (first := next(iter(self._idle.values()))).idle_since >= self._limits.max_idle_s:
            self._end(first)
        while self._timed and self._is_overdue(first := next(iter(self._timed.values())), now):
            del self._timed[first.id]
            if not first.pending:
                self._end(first)
        while self._lost and next(iter(self._lost.values())) <= now:
            del self._lost[next(iter(self._lost))]

    def _is_overdue(self, sequence: Sequence, now: float) -> bool:
        return now - sequence.began_at >= self._limits.timeout_s
