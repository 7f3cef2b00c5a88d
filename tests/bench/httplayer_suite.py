"""Our HTTP layer with a model that does nothing, beside a bare ASGI application; one core."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence

from tests.bench.options import Options
from tests.bench.peers.asgi import AsgiEcho, HttpLayer
from tests.bench.peers.launch import launched
from tests.bench.peers.peer import Peer
from tests.bench.processes import ONE_CORE
from tests.bench.report import Measured, Row, versions
from tests.bench.work import Work, load

_SHARE = 0.6
_CLIENTS = 32


def measure(options: Options) -> Measured:
    """A row for a body of a few bytes and one for that of the MNIST request."""
    works = load(options)
    rows = [_row(_noop(works[name]), options) for name in ("noop", "mnist")]
    return Measured(rows, versions())


def _row(work: Work, options: Options) -> Row:
    ours, ceiling = _best_of_each((HttpLayer(), AsgiEcho()), work, options)
    size = len(work.v1().body)
    return Row(f"http-{work.name}", f"no-op through our HTTP layer, bodies of {size:,} bytes", ours, "req/s",
               f"≥ {_SHARE:.0%}", ours >= _SHARE * ceiling, "bare ASGI echo", ceiling)  # fmt: skip


def _best_of_each(peers: Sequence[Peer], work: Work, options: Options) -> list[float]:
    """All are up and asked in turns: what else the machine does slows them all, and the best turn of each counts."""
    turns, seconds = (3, 1) if options.quick else (8, 2)
    with contextlib.ExitStack() as up:
        servers = [up.enter_context(launched(peer, work, {}, ONE_CORE, options)) for peer in peers]
        for server in servers:
            server.warm_up(1)
        rates = [[server.press(_CLIENTS, seconds).requests_per_s for server in servers] for _ in range(turns)]
    return list(map(max, zip(*rates, strict=True)))


def _noop(work: Work) -> Work:
    """Both parse the body and answer each instance with 0."""
    return dataclasses.replace(work, prediction=0)
