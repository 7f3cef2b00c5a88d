"""The log of a container: its last lines, for readers that come early, late or slowly."""

from __future__ import annotations

import asyncio

from isvc.limits import KEPT_LOG_BYTES
from isvc.run.log import Log

NOW = "2026-01-01T00:00:00Z"


def log_of(*lines: str) -> Log:
    log = Log()
    for line in lines:
        log.append(NOW, line)
    return log


async def read(log: Log, lines: int, *, follow: bool = False) -> list[str]:
    return [text async for _, text in log.read(lines, follow=follow)]


async def test_one_that_follows_gets_what_comes_until_the_end() -> None:
    log = log_of("one", "two")
    following = asyncio.create_task(read(log, 1, follow=True))
    from_now = asyncio.create_task(read(log, 0, follow=True))
    await asyncio.sleep(0)
    for line in ("three", "four"):
        log.append(NOW, line)
    await asyncio.sleep(0)
    log.append(NOW, "five")
    log.end()

    assert await following == ["two", "three", "four", "five"]
    assert await from_now == ["three", "four", "five"]


async def test_the_last_lines_are_kept_in_bounded_memory() -> None:
    log = log_of(*("x" * 1_000_000 for _ in range(20)), "", *(str(number) for number in range(100_000)))
    kept = await read(log, 10**9)

    assert kept[-1] == "99999"
    assert KEPT_LOG_BYTES * 0.9 < sum(len(line) + 100 for line in kept) <= KEPT_LOG_BYTES
    assert kept == [str(number) for number in range(100_000 - len(kept), 100_000)]


async def test_a_slow_reader_misses_what_was_dropped_meanwhile_and_goes_on() -> None:
    log = log_of("first")
    reader = log.read(10, follow=True)
    assert await anext(reader) == (NOW, "first")
    for number in range(100_000):
        log.append(NOW, str(number))
    log.end()

    rest = [int(text) async for _, text in reader]
    assert rest == list(range(rest[0], 100_000))
    assert rest[0] > 0
