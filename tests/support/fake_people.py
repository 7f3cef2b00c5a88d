"""People of a dashboard that a test plays: each has a token, and sees some namespaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from isvc.dashboard.access import Viewer
from isvc.dashboard.errors import NotSignedIn
from isvc.view.source import Reachable, Shown
from isvc_operator.manifests import ServiceKey


@dataclass
class FakePerson:
    """Implements Viewer."""

    name: str
    reach: Reachable
    namespaces: set[str]
    unseen: frozenset[Shown] = frozenset()

    def may_see(self, key: ServiceKey) -> bool:
        return key.namespace in self.namespaces

    def hidden(self, _key: ServiceKey) -> frozenset[Shown]:
        return self.unseen

    def notes(self) -> Sequence[str]:
        return [f"you may not see {kind}s" for kind in sorted(self.unseen)]


@dataclass
class FakePeople:
    """Implements People: the tokens that are valid at this moment."""

    by_token: dict[str, FakePerson] = field(default_factory=dict)

    async def person(self, token: str) -> Viewer:
        if token not in self.by_token:
            raise NotSignedIn("the token has expired")
        return self.by_token[token]
