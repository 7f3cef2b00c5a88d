"""One reading of the source's changes, for all who look: each learns what has changed since it last asked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from isvc.view.service import view_of
from isvc.view.source import ServiceSource, Shown
from isvc.view.values import ServiceView
from isvc_operator.manifests import ServiceKey


class ChangedServices:
    """The services that have changed since `wait` has returned."""

    def __init__(self) -> None:
        self._changed: set[ServiceKey] = set()
        self._is_set = asyncio.Event()

    def add(self, keys: frozenset[ServiceKey]) -> None:
        """Remember that these have changed."""
        self._changed |= keys
        self._is_set.set()

    async def wait(self, seconds: float) -> frozenset[ServiceKey]:
        """Return the services that have changed, as soon as there are some; none after so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._is_set.wait()
        except TimeoutError:
            return frozenset()
        self._is_set.clear()
        changed, self._changed = frozenset(self._changed), set()
        return changed


class Feed:
    """The services as they are seen, each computed once after a change for all who may see the same of it."""

    def __init__(self, source: ServiceSource) -> None:
        self._source = source
        self._seen: dict[ServiceKey, dict[frozenset[Shown], ServiceView]] = {}
        self._readers: set[ChangedServices] = set()

    async def run(self) -> None:
        """Read the source's changes until cancelled; raises what ends them."""
        async for keys in self._source.changes():
            for key in keys:
                self._seen.pop(key, None)
            self.announce(keys)

    def announce(self, keys: frozenset[ServiceKey]) -> None:
        """Tell all who look that there is something new about these services."""
        for reader in self._readers:
            reader.add(keys)

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

    @contextmanager
    def watched(self) -> Iterator[ChangedServices]:
        """Collect changes for one who looks."""
        changes = ChangedServices()
        self._readers.add(changes)
        try:
            yield changes
        finally:
            self._readers.discard(changes)
