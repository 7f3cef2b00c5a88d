"""Our HTTP layer with a model that does nothing, beside a bare ASGI application; one core."""

from __future__ import annotations

import dataclasses

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
    ours, ceiling = _best(HttpLayer(), work, options), _best(AsgiEcho(), work, options)
    size = len(work.v1().body)
    return Row(f"http-{work.name}", f"no-op through our HTTP layer, bodies of {size:,} bytes", ours, "req/s",
               f"≥ {_SHARE:.0%}", ours >= _SHARE * ceiling, "bare ASGI echo", ceiling)  # fmt: skip


def _best(peer: Peer, work: Work, options: Options) -> float:
    """Of three goes."""
    with launched(peer, work, {}, ONE_CORE, options) as server:
        server.warm_up(1)
        return max(server.press(_CLIENTS, 1 if options.quick else 4).requests_per_s for _ in range(3))


def _noop(work: Work) -> Work:
    """Both parse the body and answer each instance with 0."""
    return dataclasses.replace(work, prediction=0)
