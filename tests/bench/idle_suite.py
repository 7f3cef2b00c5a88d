"""What a lone client waits, MNIST on one core.

All servers are up and are asked in turns, second by second, and the quietest second of each counts: what else the
machine does makes a request slower, never quicker.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import asdict

from tests.bench.options import Options
from tests.bench.peers.bare import BareServer
from tests.bench.peers.launch import Launched, attempt, launched
from tests.bench.peers.mosec import Mosec
from tests.bench.peers.ours import Adapter, BareTorchScript, MarRuntime
from tests.bench.peers.peer import Peer
from tests.bench.peers.pytriton import PyTriton
from tests.bench.peers.torchserve import TorchServe
from tests.bench.processes import ONE_CORE
from tests.bench.report import Measured, Row, versions
from tests.bench.work import Work, load

_PEERS: tuple[Peer, ...] = (
    TorchServe(), Mosec(), PyTriton(), BareServer(), Adapter(), MarRuntime(), BareTorchScript(),
)  # fmt: skip
# The targets, in milliseconds, and what the 40 lines took where they were set.
_MAR_MS, _OVER_TORCHSERVE_MS, _LEAST_MS = 0.6, 1.0, 0.54


def measure(options: Options) -> Measured:
    """Rows for what ours add, a table of all."""
    work = load(options)["mnist"]
    notes: list[str] = []
    with contextlib.ExitStack() as up:
        servers = _all_up(up, work, options, notes)
        for server in servers.values():
            server.warm_up(2 if options.quick else 6)  # what Java has to compile
        cells = [
            {"server": name, **asdict(server.press(1, 1))}
            for _ in range(3 if options.quick else 15)
            for name, server in servers.items()
        ]
    quietest = {name: min(cell["p50_ms"] for cell in cells if cell["server"] == name) for name in servers}
    return Measured(_rows(quietest), versions(), cells, notes, _table(quietest))


def _all_up(up: contextlib.ExitStack, work: Work, options: Options, notes: list[str]) -> Mapping[str, Launched]:
    """By their names, each with the setting that waits for nobody."""
    servers = {}
    for peer in _PEERS:
        with attempt(peer.name, notes):
            setting = next(iter(peer.settings(work, 1).values()))
            servers[peer.name] = up.enter_context(launched(peer, work, setting, ONE_CORE, options))
    return servers


def _rows(p50: Mapping[str, float]) -> list[Row]:
    mar, bare, adapter = (p50.get(peer().name) for peer in (MarRuntime, BareTorchScript, Adapter))
    least, torchserve = p50.get(BareServer().name), p50.get(TorchServe().name)
    rows = []
    if mar:
        rows.append(Row("mar-idle", ".mar runtime: p50, 1 client", mar, "ms", f"≤ {_MAR_MS}", mar <= _MAR_MS))
    for name, ours in (("mar", mar), ("bare", bare)):
        if ours and least:
            most = round(_MAR_MS / _LEAST_MS, 2)
            rows.append(Row(f"{name}-idle-beside-least", f"{name}: the same beside the baseline", ours,
                            "ms", f"≤ {most}×", ours <= most * least, BareServer().name, least))  # fmt: skip
    if adapter and torchserve:
        over = round(adapter - torchserve, 3)
        rows.append(Row("adapter-idle", "adapter: p50 over TorchServe's, 1 client", over, "ms",
                        f"≤ {_OVER_TORCHSERVE_MS:g}", over <= _OVER_TORCHSERVE_MS,
                        f"TorchServe alone takes {torchserve} ms"))  # fmt: skip
    return rows


def _table(p50: Mapping[str, float]) -> str:
    lines = ["| server | p50 of one client, ms |", "|---|---|"]
    return "\n".join(lines + [f"| {name} | {value:g} |" for name, value in p50.items()])
