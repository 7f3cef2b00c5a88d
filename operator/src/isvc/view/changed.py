"""Tells several readers which services have changed, each at its own pace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from isvc_operator.manifests import ServiceKey

_PAUSE: Final = 0.2  # seconds between two items of ``changes``


class ChangeReader:
    """The services that have changed since ``wait`` has returned."""

    def __init__(self) -> None:
        self._changed: set[ServiceKey] = set()
        self._is_set = asyncio.Event()

    def add(self, keys: Iterable[ServiceKey]) -> None:
        """Remember that these have changed."""
        self._changed.update(keys)
        if self._changed:
            self._is_set.set()

    async def wait(self, seconds: float | None = None) -> frozenset[ServiceKey]:
        """Return the services that have changed, as soon as there are some; none after so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._is_set.wait()
        except TimeoutError:
            return frozenset()
        self._is_set.clear()
        changed, self._changed = frozenset(self._changed), set()
        return changed


class Changed:
    """Collects the changed services for each reader until it asks for them."""

    def __init__(self) -> None:
        self._readers: set[ChangeReader] = set()

    def note(self, keys: Iterable[ServiceKey]) -> None:
        """Note that services have changed."""
        found = [*keys]
        for reader in self._readers:
            reader.add(found)

    @contextmanager
    def read(self) -> Iterator[ChangeReader]:
        """Collect changes for one reader."""
        reader = ChangeReader()
        self._readers.add(reader)
        try:
            yield reader
        finally:
            self._readers.discard(reader)

    async def changes(self) -> AsyncGenerator[frozenset[ServiceKey], None]:
        """Yield the services that have changed since the last item; a change seldom comes alone."""
        with self.read() as reader:
            while True:
                changed = await reader.wait()
                await asyncio.sleep(_PAUSE)
                yield changed | await reader.wait(0)
