"""No body that is within the limit holds the event loop: while it is held, no probe is answered.

A search tries bodies of each kind, goes on from the slowest that it has found, and is the same in every run.
"""

from __future__ import annotations

import gc
import logging
import random
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace

import pytest

from data_plane.limits import ON_LOOP_BYTES
from data_plane.log_lines import OneLineFormatter
from tests.hostile.slow_bodies.kinds import KINDS, Body, any_body, neighbour
from tests.hostile.slow_bodies.serving import MAX_BODY, Served

HELD_S = 0.3  # what a parser takes for a body of the largest size; a probe waits a second
# This machine may be so many times slower than the one for which that was said.
ROOM = 3
# In turn: as much as is taken; less, which bounds of a number let pass; and what is read on the event loop itself.
SIZES = (MAX_BODY, MAX_BODY // 4, ON_LOOP_BYTES)  # each once for each path, unless the search is given minutes

HELD_IT_ONCE = {
    "800,000-empty-texts": Body("v2-binary", 1, (0,), MAX_BODY // 2),  # each takes long to serve: more show no more
    "parts-of-a-form": Body("multipart", 0, (0,), MAX_BODY),
    "inputs": Body("v2-inputs", 0, (0,), MAX_BODY),
    "nested-numbers": Body("v2", 8, (13,), MAX_BODY),
    "name-of-line-ends": Body("v2-names", 0, (1,), MAX_BODY),
    "attributes-of-an-event": Body("event", 1, (0,), MAX_BODY),
    "inputs-over-grpc": Body("grpc", 1, (0,), MAX_BODY),
    "parameters-over-grpc": Body("grpc", 2, (0,), MAX_BODY),
    "empty-texts-over-grpc": Body("grpc", 8, (0,), MAX_BODY // 2),
}


class Formatting(logging.Handler):
    """Writes nothing: what a server says of megabytes is formatted on its event loop."""

    def emit(self, record: logging.LogRecord) -> None:
        self.format(record)


@pytest.fixture
def formatted_log() -> Iterator[None]:
    log, handler = logging.getLogger("transformer_sdk"), Formatting()
    handler.setFormatter(OneLineFormatter())
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    yield
    log.removeHandler(handler)
    log.setLevel(logging.NOTSET)
    log.propagate = True


@pytest.fixture(scope="module")
def frozen() -> Iterator[None]:
    """As a server does once its models are loaded: else each collection looks through what other tests have left."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
    gc.collect()
    gc.freeze()


@pytest.fixture
async def served(formatted_log: None, frozen: None) -> AsyncIterator[Served]:
    found = Served()
    yield found
    await found.close()


@pytest.mark.parametrize("body", HELD_IT_ONCE.values(), ids=HELD_IT_ONCE)
async def test_what_held_the_event_loop_once_does_so_no_more(body: Body, served: Served) -> None:
    content = body.bytes()
    for path in KINDS[body.kind].paths:
        assert await _held(served, path, content, body.headers) < ROOM * HELD_S, path


@pytest.mark.parametrize("kind", KINDS)
async def test_no_body_of_a_kind_holds_the_event_loop(kind: str, served: Served, pytestconfig: pytest.Config) -> None:
    minutes = pytestconfig.getoption("--hostile-minutes") or 0
    paths = KINDS[kind].paths
    for path in paths:
        held, slowest = await _slowest(served, kind, path, 60 * minutes / len(KINDS) / len(paths))

        if held >= ROOM * HELD_S:
            assert await _held(served, path, slowest.bytes(), slowest.headers) < ROOM * HELD_S, (path, slowest)


async def _held(served: Served, path: str, content: bytes, headers: Mapping[str, str]) -> float:
    """The least of three: a body that holds the loop does so each time, what else the machine does only adds to it.

    The first that is short enough is as good as three.
    """
    held = float("inf")
    for _ in range(3):
        held = min(held, (await served.held_by(path, content, headers))[0])
        if held < ROOM * HELD_S:
            break
    return held


async def _slowest(served: Served, kind: str, path: str, seconds: float) -> tuple[float, Body]:
    """The body that held the loop for longest, of some, and of as many as there is time for; and how long."""
    chance = random.Random(f"{kind} {path}")
    longest, slowest = 0.0, any_body(kind, chance, MAX_BODY)
    tried, ends = 0, time.monotonic() + seconds
    while tried < len(SIZES) or time.monotonic() < ends:
        size = SIZES[tried % len(SIZES)]
        body = replace(neighbour(slowest, chance), size=size) if tried % 2 else any_body(kind, chance, size)
        held, _ = await served.held_by(path, body.bytes(), body.headers)
        if held > longest:
            longest, slowest = held, body
        tried += 1
    return longest, slowest
