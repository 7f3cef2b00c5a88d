"""Memory of our servers after twenty thousand requests and after ten times as many: it must not grow."""

from __future__ import annotations

from tests.bench import client
from tests.bench.options import Options
from tests.bench.peers.launch import attempt, launched
from tests.bench.peers.ours import DEFAULT, Adapter, MarRuntime
from tests.bench.peers.peer import Peer
from tests.bench.processes import BOTH_CORES
from tests.bench.report import Measured, Row, slug, versions
from tests.bench.work import load

_PEERS: tuple[Peer, ...] = (Adapter(), MarRuntime())
_EARLY, _LATE = 20_000, 200_000  # requests
_CLIENTS = 32
_GROWTH = 0.05


def measure(options: Options) -> Measured:
    """PSS of all of a server's processes, the JVM included."""
    fewer = 10 if options.quick else 1
    rows: list[Row] = []
    notes: list[str] = []
    for peer in _PEERS:
        with attempt(peer.name, notes):
            rows.append(_row(peer, _EARLY // fewer, _LATE // fewer, options))
    return Measured(rows, versions(), notes=notes)


def _row(peer: Peer, early: int, late: int, options: Options) -> Row:
    work = load(options)["mnist"]
    with launched(peer, work, DEFAULT["default"], BOTH_CORES, options) as up:
        client.repeat(up.server.port, up.question, early, _CLIENTS)
        before = up.server.pss_mib()
        client.repeat(up.server.port, up.question, late - early, _CLIENTS)
        after = up.server.pss_mib()
    what, holds = f"{peer.name}: memory after {late:,} requests", after <= (1 + _GROWTH) * before
    return Row(slug(f"memory {peer.name}"), what, round(after, 1), "MiB", f"≤ {1 + _GROWTH:g}×", holds,
               f"after {early:,}", round(before, 1))  # fmt: skip
