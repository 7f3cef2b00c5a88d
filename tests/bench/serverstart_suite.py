"""From starting the process to the first right answer, with everything installed and the model on the disk."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

from tests.bench.options import Options
from tests.bench.peers.launch import attempt, launched
from tests.bench.peers.litserve import LitServe
from tests.bench.peers.mlserver import MLServer
from tests.bench.peers.ours import Adapter, BareTorchScript, MarRuntime
from tests.bench.peers.peer import Peer
from tests.bench.peers.torchserve import KServeHop, TorchServe
from tests.bench.processes import BOTH_CORES
from tests.bench.report import Measured, Row, slug, versions
from tests.bench.work import Work, load

_TARGETS: tuple[tuple[Peer, float], ...] = ((MarRuntime(), 5), (BareTorchScript(), 5), (Adapter(), 10))
_PEERS: tuple[Peer, ...] = (TorchServe(), KServeHop(), LitServe(), MLServer())
_IMPORT = "import time; start = time.perf_counter(); import torch; print(time.perf_counter() - start)"


def measure(options: Options) -> Measured:
    """A row for each of our servers; the peers' times are cells."""
    work, runs = load(options)["mnist"], 1 if options.quick else 3
    taken: dict[str, float] = {}
    notes: list[str] = []
    for peer in (*_PEERS, *(peer for peer, _ in _TARGETS)):
        with attempt(peer.name, notes):
            taken[peer.name] = _seconds(peer, work, runs, options)
    rows = [_row(peer, target, taken) for peer, target in _TARGETS if peer.name in taken]
    cells: list[dict[str, Any]] = [{"server": name, "seconds": seconds} for name, seconds in taken.items()]
    return Measured([_torch(runs), *rows], versions(), cells, notes)


def _row(peer: Peer, target: float, taken: Mapping[str, float]) -> Row:
    ours, like = taken[peer.name], "TorchServe" if isinstance(peer, Adapter) else "LitServe"
    return Row(slug(f"start {peer.name}"), f"{peer.name}: process started → ready and responding", ours, "s",
               f"≤ {target:g}", ours <= target, like, taken.get(like))  # fmt: skip


def _seconds(peer: Peer, work: Work, runs: int, options: Options) -> float:
    """The median; a first run, not counted, brings files into memory and compiles what is to be compiled."""
    setting = next(iter(peer.settings(work, BOTH_CORES.count).values()))
    taken = []
    for _ in range(runs + 1):
        with launched(peer, work, setting, BOTH_CORES, options) as server:
            if peer.name.startswith("ours"):
                server.server.wait_ready("/v2/health/ready")
            taken.append(time.monotonic() - server.started)
    return round(statistics.median(taken[1:]), 2)


def _torch(runs: int) -> Row:
    taken = [float(subprocess.check_output([sys.executable, "-Wignore", "-c", _IMPORT])) for _ in range(runs)]
    return Row("start-torch", "… of which importing torch", round(statistics.median(taken), 2), "s", "–", True)
