"""Tells several readers which services have changed, each at its own pace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from typing import Final

from isvc_operator.manifests import ServiceKey

_PAUSE: Final = 0.2  # seconds between two items of a reader


class Changed:
    """Collects the changed services for each reader until it asks for them."""

    def __init__(self) -> None:
        self._readers: dict[asyncio.Event, set[ServiceKey]] = {}

    def note(self, keys: Iterable[ServiceKey]) -> None:
        """Note that services have changed."""
        found = [*keys]
        if found:
            for event, changed in self._readers.items():
                changed.update(found)
                event.set()

    async def changes(self) -> AsyncGenerator[frozenset[ServiceKey], None]:
        """Yield the services that have changed since the last item."""
        event = asyncio.Event()
        changed = self._readers[event] = set()
        try:
            while True:
                await event.wait()
                await asyncio.sleep(_PAUSE)  # a change seldom comes alone
                event.clear()
                found = frozenset(changed)
                changed.clear()
                yield found
        finally:
            del self._readers[event]
