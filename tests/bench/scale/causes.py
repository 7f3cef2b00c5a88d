"""Which writes of the operator have no cause, by the API server's audit log.

Each service has a namespace of its own, so every line of the log tells which service it is about. A *change* is a
successful write of somebody else to an object that the operator watches there: the service, its children, its pods. A
change is the cause of at most one write of the operator to each object, and of none that begins more than
``WITHIN`` seconds after it. So an operator that writes the same object twice after one change is found, and so
is one that writes when nothing has changed. A write that the API server refuses does not use up its cause, because it
is tried again. The time of a write is when its request arrived, as watches may tell of it before it is answered.

The first change of a child takes two writes: one makes the fields of its creation ours to remove, by ``managedFields``
alone, and the other is the change (docs/decisions/0048-children-are-created-by-post.md). Once in the life of a child,
the former needs a cause and leaves it to the latter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from operator import itemgetter
from typing import Any

WITHIN = 30.0  # seconds
LONGEST = 10.0  # seconds that a write takes, at most
WRITES = {"create", "update", "patch", "delete", "deletecollection"}
WATCHED = {
    "inferenceservices", "deployments", "services", "ingresses", "pods", "horizontalpodautoscalers",
    "poddisruptionbudgets",
}  # fmt: skip
_KEPT = 200  # changes of a namespace; a second has a few


@dataclass
class Causes:
    """Reads the log; ``user_agent`` is that of the operator's writes."""

    user_agent: str
    writes: int = 0
    changes: int = 0
    without: list[str] = field(default_factory=list)  # the writes without a cause, in words
    _waiting: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    _times: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))  # of changes, by namespace
    _used: dict[tuple[str, ...], float] = field(default_factory=dict)  # the last change that was used, by object
    _adopted: set[tuple[str, ...]] = field(default_factory=set)  # the children whose fields were made ours

    def read(self, lines: Iterable[dict[str, Any]]) -> None:
        """Read the lines after answers. They are in the order of the answers, not of the requests, so some wait."""
        for line in lines:
            if line["verb"] in WRITES and line.get("objectRef", {}).get("namespace"):
                self._waiting.append((_seconds(line["requestReceivedTimestamp"]), line))
        newest = max((time for time, _ in self._waiting), default=0.0)
        self._take_until(newest - LONGEST)

    def end(self) -> None:
        """Read the lines that still wait."""
        self._take_until(inf)

    def _take_until(self, end: float) -> None:
        self._waiting.sort(key=itemgetter(0))
        while self._waiting and self._waiting[0][0] <= end:
            time, line = self._waiting.pop(0)
            if line.get("userAgent", "").startswith(self.user_agent):
                self._write(time, line)
            elif _succeeded(line) and line["objectRef"]["resource"] in WATCHED and "dryRun" not in line["requestURI"]:
                self.changes += 1
                namespace = line["objectRef"]["namespace"]
                self._times[namespace] = [*self._times[namespace][-_KEPT:], time]

    def _write(self, time: float, line: Mapping[str, Any]) -> None:
        self.writes += 1
        target = line["objectRef"]
        names = tuple(target.get(part, "") for part in ("namespace", "resource", "subresource", "name"))
        used = self._used.get(names, 0.0)
        cause = next((at for at in self._times[names[0]] if used < at and time - WITHIN <= at < time), None)
        if cause is None:
            code = line["responseStatus"]["code"]
            self.without.append(f"{line['requestReceivedTimestamp']} {line['verb']} {'/'.join(names)}: {code}")
        elif _succeeded(line) and not self._adopts(names, line):
            self._used[names] = cause

    def _adopts(self, names: tuple[str, ...], line: Mapping[str, Any]) -> bool:
        """Whether this is the one write by which the fields of a child's creation become ours."""
        if line["verb"] in ("create", "delete"):
            self._adopted.discard(names)
        _, resource, subresource, _ = names
        of_child = resource != "inferenceservices" and not subresource
        if line["verb"] != "patch" or not of_child or "force=true" in line["requestURI"] or names in self._adopted:
            return False
        self._adopted.add(names)
        return True


def _succeeded(line: Mapping[str, Any]) -> bool:
    return 200 <= line["responseStatus"]["code"] < 300


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()
