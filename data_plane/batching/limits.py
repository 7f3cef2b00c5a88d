"""How large a batch may be. Pure.

A batch is bounded by a number of instances and, where a latency target is given, by how long a batch of that size is
expected to take; that is learnt from the batches that ran.
"""

from __future__ import annotations

from dataclasses import dataclass

# Untouched settings: large enough to amortise a call, small enough to stay in a CPU's caches.
DEFAULT_MAX_BATCH_SIZE = 32
DEFAULT_QUEUE_SIZE = 1000

_FORGETTING = 0.9  # weight of the past at each batch


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """What the user asked for, or the defaults."""

    max_batch_size: int = DEFAULT_MAX_BATCH_SIZE  # instances; a single larger request is run as it is
    max_latency_s: float | None = None  # how long a batch may take
    queue_size: int = DEFAULT_QUEUE_SIZE  # waiting requests; more are refused
    timeout_s: float | None = None  # how long a request may take, its time in the queue included
    continuous: bool = False  # requests join and leave one running batch, step by step of the handler
    merges_rows: bool = True  # also where a request is one row, which the handler may take for the only one


class BatchDuration:
    """Learns seconds = fixed + size x per_instance by weighted least squares; recent batches count more."""

    def __init__(self) -> None:
        self._weight = 0.0
        self._size = 0.0
        self._seconds = 0.0
        self._size_variance = 0.0
        self._covariance = 0.0
        self._largest = 1

    def observe(self, size: int, seconds: float) -> None:
        """One batch ran; one of empty requests takes its time, too."""
        size = max(1, size)
        self._largest = max(self._largest, size)
        self._weight = self._weight * _FORGETTING + 1
        share = 1 / self._weight
        size_error, seconds_error = size - self._size, seconds - self._seconds
        self._size += share * size_error
        self._seconds += share * seconds_error
        self._size_variance = (1 - share) * (self._size_variance + share * size_error * size_error)
        self._covariance = (1 - share) * (self._covariance + share * size_error * seconds_error)

    def largest_within(self, seconds: float, limit: int) -> int:
        """The largest size, 1 to `limit`, that is expected to take no longer; at most twice what was ever tried."""
        cautious = min(limit, 2 * self._largest)
        if not self._weight:
            return 1
        if self._size_variance > 1e-9:
            per_instance = max(self._covariance / self._size_variance, 0.0)
        else:  # all batches had one size: as if nothing were fixed
            per_instance = self._seconds / self._size
        if per_instance <= 0.0:
            return cautious if self._seconds <= seconds else 1
        return max(1, min(cautious, int(self._size + (seconds - self._seconds) / per_instance)))
