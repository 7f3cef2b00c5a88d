"""Bodies that are made to be slow are served or refused as any other.

`make bench ARGS=health` tells how long each holds the event loop: while it is held, no probe is answered.
"""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncIterator, Iterator

import pytest

from data_plane.limits import ON_LOOP_BYTES
from data_plane.log_lines import OneLineFormatter
from tests.hostile.slow_bodies.kinds import KINDS, Body, any_body
from tests.hostile.slow_bodies.serving import MAX_BODY, Served

# As much as is taken; less, which bounds of a number let pass; and what is read on the event loop itself.
SIZES = (MAX_BODY, MAX_BODY // 4, ON_LOOP_BYTES)

# 0 is a success over gRPC; 500 is a model of the SDK that gives back what cannot be sent.
SERVED_OR_REFUSED = {0, 200, 400, 413, 415, 422, 500}

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


@pytest.fixture
async def served(formatted_log: None) -> AsyncIterator[Served]:
    found = Served()
    yield found
    await found.close()


@pytest.mark.parametrize("body", HELD_IT_ONCE.values(), ids=HELD_IT_ONCE)
async def test_what_held_the_event_loop_once_is_served_or_refused(body: Body, served: Served) -> None:
    content = body.bytes()
    for path in KINDS[body.kind].paths:
        _, status = await served.held_by(path, content, body.headers)
        assert status in SERVED_OR_REFUSED, path


@pytest.mark.parametrize("kind", KINDS)
async def test_every_body_of_a_kind_is_served_or_refused(kind: str, served: Served) -> None:
    for path in KINDS[kind].paths:
        chance = random.Random(f"{kind} {path}")
        for size in SIZES:
            body = any_body(kind, chance, size)
            _, status = await served.held_by(path, body.bytes(), body.headers)
            assert status in SERVED_OR_REFUSED, (path, body)
