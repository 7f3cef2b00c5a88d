"""How long a probe waits while hostile clients are served, and how long a body within the limit holds the event loop.

The first is what the tests in `tests/hostile` print. For the second, a search tries bodies of each kind and continues
from the slowest that it has found.
"""

from __future__ import annotations

import asyncio
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tests.bench.options import Options
from tests.bench.report import Measured, Row, slug, versions
from tests.hostile.health import LONGEST
from tests.hostile.slow_bodies.kinds import KINDS, any_body, neighbour
from tests.hostile.slow_bodies.serving import MAX_BODY, Served

ROOT = Path(__file__).parents[2]
HEALTH_S = 1.0  # what a probe waits by default
TRIES = 30  # for each path of each kind
_SIZES = (MAX_BODY, MAX_BODY // 4)
_PRINTED = re.compile(rf"_+ (\S+) _+$|^{re.escape(LONGEST)}([\d.]+) s$", re.MULTILINE)


def measure(options: Options) -> Measured:
    rows = [*_waits(options), *asyncio.run(_holds(3 if options.quick else TRIES))]
    return Measured(rows, versions())


def _waits(options: Options) -> Iterator[Row]:
    """The longest wait of each test that asks for health meanwhile."""
    command = [sys.executable, "-m", "pytest", "tests/hostile", "--ignore=tests/hostile/limits", "-q", "-rP"]
    done = subprocess.run(command, cwd=ROOT, env=options.environment, stdout=subprocess.PIPE, text=True, check=True)
    test = ""
    for name, seconds in _PRINTED.findall(done.stdout):
        test = name or test
        if seconds:
            yield _row(f"{test}: the longest that a probe waited", float(seconds))


async def _holds(tries: int) -> list[Row]:
    served, rows = Served(), list[Row]()
    for kind, of in KINDS.items():
        held = [await _longest(served, kind, path, tries) for path in of.paths]
        rows.append(_row(f"{kind}: the longest that a body held the event loop", max(held)))
    await served.close()
    return rows


async def _longest(served: Served, kind: str, path: str, tries: int) -> float:
    chance = random.Random(f"{kind} {path}")
    longest, slowest = 0.0, any_body(kind, chance, MAX_BODY)
    for tried in range(tries):
        size = _SIZES[tried % len(_SIZES)]
        body = replace(neighbour(slowest, chance), size=size) if tried % 2 else any_body(kind, chance, size)
        held, _ = await served.held_by(path, body.bytes(), body.headers)
        if held > longest:
            longest, slowest = held, body
    return longest


def _row(what: str, seconds: float) -> Row:
    return Row(slug(what), what, round(seconds, 3), "s", f"≤ {HEALTH_S:g}", seconds <= HEALTH_S)
