"""What a program has asked the API server, by its audit log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

CHILDREN = ("deployments", "services")
_LEASES = "leases"


@dataclass
class Calls:
    """The calls of the user agents, a lease's left out; times are seconds since 1970."""

    user_agents: Sequence[str]
    verbs: Counter[str] = field(default_factory=Counter)
    made: dict[tuple[str, str], float] = field(default_factory=dict)  # when a child was first written, by kind and name
    last: float = 0.0  # when the last call was received

    def read(self, lines: Iterable[dict[str, Any]]) -> None:
        """Read the lines before and after answers."""
        for line in lines:
            target = line.get("objectRef", {})
            if not line.get("userAgent", "").startswith(tuple(self.user_agents)) or target.get("resource") == _LEASES:
                continue
            if line["stage"] == "RequestReceived":
                self.verbs[_verb(line)] += 1
                self.last = _seconds(line["stageTimestamp"])
            elif line["stage"] == "ResponseComplete" and target.get("resource") in CHILDREN:
                self._write(line, target)

    def children(self, count: int) -> float | None:
        """When the last of the children of so many services was written; nothing if some are missing."""
        return max(self.made.values()) if len(self.made) >= count * len(CHILDREN) else None

    def _write(self, line: dict[str, Any], target: dict[str, Any]) -> None:
        if line["responseStatus"]["code"] == 201 and "dryRun" not in line["requestURI"]:
            self.made.setdefault((target["resource"], target.get("name", "")), _seconds(line["stageTimestamp"]))


def _verb(line: dict[str, Any]) -> str:
    if "objectRef" not in line:
        return "discover"  # which kinds there are
    return f"{line['verb']}{' (dry run)' if 'dryRun' in line['requestURI'] else ''}"


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()
