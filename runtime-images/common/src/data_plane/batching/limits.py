"""The largest size of a batch. Pure.

A batch is bounded by a number of instances and, if there is a latency target, by the expected duration of a batch of
that size, which is learned from the batches that ran.
"""

from __future__ import annotations

from dataclasses import dataclass

from data_plane.limits import DEFAULT_MAX_BATCH_SIZE, DEFAULT_QUEUE_SIZE

_FORGETTING = 0.9  # weight of the past at each batch


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The user's settings, or the defaults."""

    max_batch_size: int = DEFAULT_MAX_BATCH_SIZE  # instances; a single larger request is run as it is
    max_latency_s: float | None = None  # the longest duration of a batch
    queue_size: int = DEFAULT_QUEUE_SIZE  # waiting requests; more are refused
    timeout_s: float | None = None  # the longest duration of a request, including its time in the queue
    continuous: bool = False  # requests join and leave one running batch, step by step of the handler
    merges_rows: bool = True  # also if a request is one row, as the handler may support only one


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
        """Learn from a batch that ran. A batch of empty requests counts as one instance."""
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
        """Return the largest size from 1 to `limit` that should take no longer; at most twice the largest so far."""
        cautious = min(limit, 2 * self._largest)
        if not self._weight:
            return 1
        if self._size_variance > 1e-9:
            per_instance = max(self._covariance / self._size_variance, 0.0)
        else:  # all batches had the same size: assume no fixed cost
            per_instance = self._seconds / self._size
        if per_instance <= 0.0:
            return cautious if self._seconds <= seconds else 1
        return max(1, min(cautious, int(self._size + (seconds - self._seconds) / per_instance)))
