"""Optional kinds whose CRD is not installed: one child of each is tried again at intervals, for all services together.

So nothing has to be watched or granted to find out when a CRD is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from isvc_operator.plan.changes import ChildChange

RETRY_SECONDS = 10.0


@dataclass
class MissingKinds:
    """Remembers when each kind may be tried again. ``clock`` counts seconds."""

    clock: Callable[[], float]
    _until: dict[str, float] = field(default_factory=dict)

    def add(self, kinds: Iterable[str]) -> None:
        """Add kinds that the API server has just not known."""
        self._until.update(dict.fromkeys(kinds, self.clock() + RETRY_SECONDS))

    def left_out_of(self, changes: Sequence[ChildChange]) -> list[ChildChange]:
        """Return the changes that can be sent now: all but those of missing kinds. Deletions do no harm."""
        missing = self.among(changes)
        return [change for change in changes if change.deletes or change.manifest["kind"] not in missing]

    def among(self, changes: Iterable[ChildChange]) -> frozenset[str]:
        """Return the kinds of the changes that are missing."""
        kinds = {change.manifest["kind"] for change in changes if not change.deletes}
        return frozenset(kind for kind in kinds if self.clock() < self._until.get(kind, 0))
