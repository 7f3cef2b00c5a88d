"""Batching with the v1 protocol: every instance gets its own answer, and who comes alone does not wait for others."""

from __future__ import annotations

import contextlib
from typing import Any

from tests.bench import client
from tests.bench.options import Options
from tests.bench.peers.launch import attempt, launched
from tests.bench.peers.ours import DEFAULT, Adapter, MarRuntime
from tests.bench.peers.peer import Peer
from tests.bench.processes import BOTH_CORES, ONE_CORE
from tests.bench.report import Measured, Row, slug, versions
from tests.bench.work import Work, load

_CONNECTIONS = 64
_SLOWER = 1.1
_UNBATCHED, _BATCHED = {"batchSize": 1}, {"batchSize": 32, "maxBatchDelay": 50}
_TURNS = 30


def measure(options: Options) -> Measured:
    """For each of our servers: no answer lost or mixed up; latency of one client with and without batches."""
    works = load(options)
    rows: list[Row] = []
    cells: list[dict[str, Any]] = []
    notes: list[str] = []
    for peer in (Adapter, MarRuntime):
        with attempt(peer().name, notes):
            mixed, cell = _mismatches(peer(), works["noop"], options)
            rows += [mixed, _idle(peer, works["mnist"], options)]
            cells.append(cell)
    return Measured(rows, versions(), cells, notes)


def _mismatches(peer: Peer, work: Work, options: Options) -> tuple[Row, dict[str, Any]]:
    count = min(options.instances, 50_000) if options.quick else options.instances
    with launched(peer, work, DEFAULT["default"], BOTH_CORES, options) as up:
        seen = client.check(up.server.port, up.question.path, count, _CONNECTIONS)
    bad = seen.failed + seen.mismatched
    what = f"{peer.name}: requests of {seen.requests:,} ({count:,} instances) that failed or got another's response"
    cell = {"server": peer.name, "requests": seen.requests, "instances": count, "failed": seen.failed,
            "mismatched": seen.mismatched, "seconds": seen.seconds}  # fmt: skip
    return Row(slug(f"mismatched {peer.name}"), what, bad, "requests", "0", bad == 0), cell


def _idle(kind: type[Adapter] | type[MarRuntime], work: Work, options: Options) -> Row:
    """Both are up and are asked in turns, second by second; the quietest second of each counts."""
    with contextlib.ExitStack() as up:
        servers = [
            up.enter_context(launched(kind(batching=batching), work, DEFAULT["default"], ONE_CORE, options))
            for batching in (_BATCHED, _UNBATCHED)
        ]
        for server in servers:
            server.warm_up(4)
        turns = [[server.press(1, 1).p50_ms for server in servers] for _ in range(3 if options.quick else _TURNS)]
    ours, theirs = map(min, zip(*turns, strict=True))
    return Row(slug(f"idle {kind().name}"), f"{kind().name}: p50 of one client, batches of up to 32", ours, "ms",
               f"≤ {_SLOWER:g}×", ours <= _SLOWER * theirs, "batchSize 1", theirs)  # fmt: skip
