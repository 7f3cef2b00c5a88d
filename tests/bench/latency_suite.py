"""Waiting times at 70 % of the highest load: requests come at a fixed rate, be earlier ones answered or not."""

from __future__ import annotations

import statistics
from typing import Any

from tests.bench.load import pace
from tests.bench.options import Options
from tests.bench.peers.launch import Launched, attempt, launched
from tests.bench.peers.ours import DEFAULT, Adapter, BareTorchScript, MarRuntime
from tests.bench.peers.peer import Peer
from tests.bench.processes import ONE_CORE, held_to
from tests.bench.report import Measured, Row, slug, versions
from tests.bench.work import load

_PEERS: tuple[Peer, ...] = (Adapter(), MarRuntime(), BareTorchScript())
_SHARE = 0.7
_TARGET = 3


def measure(options: Options) -> Measured:
    """A row for each of our servers."""
    work, seconds = load(options)["mnist"], 2 if options.quick else 4
    rows: list[Row] = []
    cells: list[dict[str, Any]] = []
    notes: list[str] = []
    for peer in _PEERS:
        with attempt(peer.name, notes), launched(peer, work, DEFAULT["default"], ONE_CORE, options) as server:
            server.warm_up(seconds)
            runs = [_run(server, seconds) for _ in range(1 if options.quick else 3)]
            rows.append(_row(peer, runs))
            cells += [{"server": peer.name, **run} for run in runs]
    return Measured(rows, versions(), cells, notes)


def _row(peer: Peer, runs: list[dict[str, Any]]) -> Row:
    ratio = round(statistics.median(run["p99_ms"] / run["p50_ms"] for run in runs), 2)
    what = f"{peer.name}: p99 / p50 at 70 % of the highest load, median of {len(runs)}"
    return Row(slug(f"tail {peer.name}"), what, ratio, "×", f"≤ {_TARGET}", ratio <= _TARGET)


def _run(server: Launched, seconds: int) -> dict[str, Any]:
    highest = max(server.press(clients, seconds).requests_per_s for clients in (8, 32))
    with held_to(ONE_CORE.load):
        latencies = pace(server.server.port, server.question, _SHARE * highest, 2 * seconds)
    centiles = statistics.quantiles(latencies, n=100, method="inclusive")
    return {
        "highest_per_s": highest,
        "rate_per_s": round(_SHARE * highest, 1),
        "requests": len(latencies),
        **{f"p{at}_ms": round(centiles[at - 1], 3) for at in (50, 90, 99)},
    }
