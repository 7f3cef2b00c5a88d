"""Servers side by side on the same work: throughput and latency by the number of clients.

A round is one work on certain cores. In it every server is launched with each of its settings in turn, and every
launch is loaded by few and by many clients; a server is then compared by the setting that did best. Where it is the
model's time that counts there are two turns, as the machine may be twice as slow in one minute as in another.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from tests.bench import environments, targets
from tests.bench.options import Options
from tests.bench.peers.launch import attempt, launched
from tests.bench.peers.litserve import LitServe
from tests.bench.peers.mlserver import MLServer
from tests.bench.peers.mosec import Mosec
from tests.bench.peers.ours import Adapter, BareTorchScript, MarRuntime
from tests.bench.peers.peer import Peer
from tests.bench.peers.pytriton import PyTriton
from tests.bench.peers.torchserve import KServeHop, NativeTorchServe, TorchServe
from tests.bench.processes import BOTH_CORES, ONE_CORE, Cores
from tests.bench.report import Measured, versions
from tests.bench.targets import Cell
from tests.bench.work import Work, load

PEERS: tuple[Peer, ...] = (
    TorchServe(), NativeTorchServe(), KServeHop(), LitServe(), MLServer(), Mosec(), PyTriton(),
    Adapter(), MarRuntime(), BareTorchScript(),
)  # fmt: skip
_RAW_BATCHES = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True)
class Round:
    work: str
    cores: Cores
    seconds: Mapping[int, int]  # of each cell, by its number of clients
    turns: int = 1


# Of slow work a short cell would be over within the first batch.
FULL = (
    Round("mnist", ONE_CORE, {1: 2, 8: 2, 32: 3, 128: 2}, turns=2),
    Round("mnist", BOTH_CORES, {1: 2, 8: 2, 32: 3, 128: 2}, turns=2),
    Round("noop", ONE_CORE, {1: 1, 8: 1, 32: 2, 128: 1}),
    Round("noop", BOTH_CORES, {1: 1, 8: 1, 32: 2, 128: 1}),
    Round("image", ONE_CORE, {1: 2, 8: 3, 32: 5, 128: 9}),
    Round("image", BOTH_CORES, {1: 2, 8: 3, 32: 5}),
    # With more clients the bodies alone, in all their copies, are most of this machine's memory.
    Round("big", ONE_CORE, {1: 2, 8: 3}),
    Round("big", BOTH_CORES, {1: 2, 8: 3}),
)
QUICK = (
    Round("mnist", ONE_CORE, {1: 2, 8: 2, 32: 2}),
    Round("noop", ONE_CORE, {32: 2}),
    Round("image", ONE_CORE, {8: 4}),
    Round("big", ONE_CORE, {8: 4}),
)


def measure(options: Options) -> Measured:
    """Rows, tables and the plot's data."""
    works = load(options)
    cells: list[Cell] = []
    notes: list[str] = []
    before = raw_torch("mnist", options)
    for round_ in QUICK if options.quick else FULL:
        for peer in PEERS * round_.turns:
            cells += _server(peer, round_, works[round_.work], options, notes)
    # Twice, half an hour apart: it is what everything else is compared to.
    raw = {name: max(rate, before[name]) for name, rate in raw_torch("mnist", options).items()}
    return Measured(
        rows=targets.rows(cells, max(raw.values())),
        versions=versions(**_peer_versions()),
        cells=[asdict(cell) for cell in cells] + [{"work": "mnist", "server": "raw torch", **raw}],
        notes=notes,
        tables=targets.tables(cells, works),
    )


def _server(peer: Peer, round_: Round, work: Work, options: Options, notes: list[str]) -> Iterator[Cell]:
    settings = peer.settings(work, round_.cores.count)
    for label in list(settings)[: 1 if options.quick else None]:
        with (
            attempt(f"{work.name}, {round_.cores.name}: {peer.name} ({label})", notes),
            launched(peer, work, settings[label], round_.cores, options) as server,
        ):
            server.warm_up(1)
            for clients, seconds in round_.seconds.items():
                seen = server.press(clients, seconds)
                yield Cell(work.name, peer.name, label, round_.cores.name, **asdict(seen))


def raw_torch(work: str, options: Options) -> dict[str, float]:
    """Images per second of the model alone on one core, by what runs it and its batch size."""
    seconds = "0.3" if options.quick else "1"
    output = subprocess.run(
        ["taskset", "--cpu-list", ONE_CORE.server, environments.python("torch", options),
         environments.PROGRAMS / "raw_torch.py", work, environments.models(options), seconds,
         *map(str, _RAW_BATCHES)],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    return {name: round(rate, 1) for name, rate in json.loads(output).items()}


def _peer_versions() -> dict[str, str]:
    wanted = {"torch": "torch", "torchserve": "torchserve", "kserve": "kserve", "litserve": "litserve",
              "mlserver": "mlserver", "mosec": "mosec", "pytriton": "nvidia-pytriton", "asgi": "uvicorn"}  # fmt: skip
    return {f"peer-{package}": environments.versions(peer)[package] for peer, package in wanted.items()}
