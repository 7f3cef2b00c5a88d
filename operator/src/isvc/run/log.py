"""The log of a container: its last lines, in bounded memory, for any number of readers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import islice

from isvc.limits import KEPT_LOG_BYTES

_LINE_COST = 100  # bytes of memory of a short line, beside its text

Line = tuple[str, str]  # its time, and its text


@dataclass
class Wakeup:
    """Wakes all that wait for it."""

    _event: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        """Wake those who wait now."""
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self) -> None:
        """Wait until it is called the next time."""
        await self._event.wait()


@dataclass
class Log:
    """The last lines of one instance of a container."""

    _lines: deque[Line] = field(default_factory=deque)
    _size: int = 0
    _added: int = 0
    _ended: bool = False
    _changed: Wakeup = field(default_factory=Wakeup)

    def append(self, time: str, text: str) -> None:
        """Add a line; the first ones are dropped if all of them are too much."""
        self._lines.append((time, text))
        self._added += 1
        self._size += len(text) + _LINE_COST
        while self._size > KEPT_LOG_BYTES and len(self._lines) > 1:
            self._size -= len(self._lines.popleft()[1]) + _LINE_COST
        self._changed.wake()

    def end(self) -> None:
        """There are no further lines."""
        self._ended = True
        self._changed.wake()

    def last(self, lines: int) -> list[str]:
        """Return the texts of the last lines."""
        return [text for _, text in self._newest(lines)]

    async def read(self, lines: int, *, follow: bool) -> AsyncIterator[Line]:
        """Yield the last lines; with ``follow`` also those that come, until the container ends.

        A reader that is slower than the container misses what was dropped meanwhile.
        """
        count = min(lines, len(self._lines))
        while True:
            read = self._added
            for line in self._newest(count):
                yield line
            count = min(self._added - read, len(self._lines))
            if not count:
                if not follow or self._ended:
                    return
                await self._changed.wait()
                count = min(self._added - read, len(self._lines))

    def _newest(self, count: int) -> list[Line]:
        return list(islice(reversed(self._lines), count))[::-1]
