"""Which waiting requests form the next batch: how many, and whether to wait for more. Pure: the caller passes the time.

Callers whose responses have just been sent often send their next request at once. Two half batches take longer than one
whole batch, so a lone worker waits a moment for them.
"""

from __future__ import annotations

from collections.abc import Container, Hashable

from data_plane.batching.limits import BatchDuration, BatchLimits

# Callers send their next requests one soon after the other. A longer pause between two, as a share of the duration of
# the last batch and never longer than this, means that no more come.
_PAUSE_SHARE = 0.1
_PAUSE_S = 0.001


class Gathering:
    """The policy of one queue. Requests with a key in `alone` are never merged; with `merging=False`, none are."""

    __slots__ = ("_alone", "_duration", "_expected", "_limits", "_pause_s", "merging", "until")

    def __init__(self, limits: BatchLimits, alone: Container[Hashable] = (), *, merging: bool = True) -> None:
        self._limits = limits
        self._alone = alone
        self._duration = BatchDuration()
        self._expected = 0  # instances, if all callers of the last batch send another request
        self._pause_s = 0.0
        self.merging = merging
        self.until = 0.0  # the next batch waits no longer than until then

    def merges(self, key: Hashable) -> bool:
        return self.merging and key not in self._alone

    def limit(self, instances: int, capacity: int) -> int:
        """Return how many instances the next batch may have, of all `instances` that wait or run."""
        # Each worker takes its share of them: else one takes all that wait, and the others get nothing.
        share = -(-instances // max(1, capacity))  # there may be no worker just now
        limit = min(self._limits.max_batch_size, share)
        if self._limits.max_latency_s is None:
            return limit
        return self._duration.largest_within(self._limits.max_latency_s, limit)

    def expects_more(self, instances: int) -> bool:
        """Return whether fewer instances wait or run than when the last batch ended."""
        return 0 < instances < self._expected

    def arrived(self, now: float) -> None:
        """Wait for one more pause, as a request has arrived while others were waited for."""
        self.until = max(self.until, now + self._pause_s)

    def succeeded(self, size: int, seconds: float) -> None:
        """Learn from a batch that ran: one that failed took as long as a timeout or a worker's restart."""
        self._duration.observe(size, seconds)

    def ended(self, key: Hashable, now: float, *, model_s: float, instances: int, capacity: int) -> None:
        """Expect the callers of a batch again. `instances` are those that wait or run, the batch's own included."""
        self._expected = self.limit(instances, capacity) if self.merges(key) else 0
        self._pause_s = min(_PAUSE_S, _PAUSE_SHARE * model_s)
        self.until = now + 2 * self._pause_s  # the responses are sent first
