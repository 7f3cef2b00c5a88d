"""From starting the process to the first right answer, with everything installed and the model on the disk."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import Any

from tests.bench.options import Options
from tests.bench.peers.launch import launched
from tests.bench.peers.litserve import LitServe
from tests.bench.peers.mlserver import MLServer
from tests.bench.peers.ours import Adapter, BareTorchScript, MarRuntime
from tests.bench.peers.peer import Peer
from tests.bench.peers.torchserve import KServeHop, TorchServe
from tests.bench.processes import BOTH_CORES
from tests.bench.report import Measured, Row, versions
from tests.bench.work import Work, load

_TARGETS: tuple[tuple[Peer, float], ...] = ((MarRuntime(), 5), (BareTorchScript(), 5), (Adapter(), 10))
_PEERS: tuple[Peer, ...] = (TorchServe(), KServeHop(), LitServe(), MLServer())
_IMPORT = "import time; start = time.perf_counter(); import torch; print(time.perf_counter() - start)"


def measure(options: Options) -> Measured:
    """A row for each of our servers; the peers' times are cells."""
    work, runs = load(options)["mnist"], 1 if options.quick else 3
    peers = {peer.name: _seconds(peer, work, runs, options) for peer in _PEERS}
    rows = [_torch(runs)]
    for peer, target in _TARGETS:
        ours = _seconds(peer, work, runs, options)
        like = "TorchServe" if isinstance(peer, Adapter) else "LitServe"
        rows.append(Row(f"start {peer.name}", f"{peer.name}: process started → ready and answers", ours, "s",
                        f"≤ {target:g}", ours <= target, like, peers[like]))  # fmt: skip
    cells: list[dict[str, Any]] = [{"server": name, "seconds": seconds} for name, seconds in peers.items()]
    return Measured(rows, versions(), cells)


def _seconds(peer: Peer, work: Work, runs: int, options: Options) -> float:
    """The median; a first run, not counted, brings files into memory and compiles what is to be compiled."""
    setting = next(iter(peer.settings(work, BOTH_CORES.count).values()))
    taken = []
    for _ in range(runs + 1):
        started = time.monotonic()
        with launched(peer, work, setting, BOTH_CORES, options):
            taken.append(time.monotonic() - started)
    return round(statistics.median(taken[1:]), 2)


def _torch(runs: int) -> Row:
    taken = [float(subprocess.check_output([sys.executable, "-Wignore", "-c", _IMPORT])) for _ in range(runs)]
    return Row("start torch", "… of which importing torch", round(statistics.median(taken), 2), "s", "–", True)
