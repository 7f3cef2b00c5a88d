"""One reading of the source's changes, for all who look: each learns what has changed since it last asked."""

from __future__ import annotations

from isvc.view.changed import Changed
from isvc.view.service import view_of
from isvc.view.source import ServiceSource, Shown
from isvc.view.values import ServiceView
from isvc_operator.manifests import ServiceKey


class Feed:
    """The services as they are seen, each computed once after a change for all who may see the same of it.

    ``changed`` tells all who look what is new.
    """

    def __init__(self, source: ServiceSource) -> None:
        self.changed = Changed()
        self._source = source
        self._seen: dict[ServiceKey, dict[frozenset[Shown], ServiceView]] = {}

    async def run(self) -> None:
        """Read the source's changes until cancelled; raises what ends them."""
        async for keys in self._source.changes():
            for key in keys:
                self._seen.pop(key, None)
            self.changed.note(keys)

    def service(self, key: ServiceKey, hidden: frozenset[Shown] = frozenset()) -> ServiceView | None:
        """Return the service as it is seen now by who may not see what is hidden; None if it does not exist."""
        seen = self._seen.setdefault(key, {})
        if hidden not in seen:
            related = self._source.related(key)
            if related is None:
                del self._seen[key]
                return None
            seen[hidden] = view_of(related.without(hidden))
        return seen[hidden]
