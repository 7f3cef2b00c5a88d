"""Servers side by side on the same work: throughput and latency by the number of clients.

A round is one work on certain cores. In it every server is launched with each of its settings in turn, and every
launch is loaded by few and by many clients; a server is then compared by the setting that did best.
"""

from __future__ import annotations

import json
import logging
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from tests.bench import environments, targets
from tests.bench.options import Options
from tests.bench.peers.launch import launched
from tests.bench.peers.litserve import LitServe
from tests.bench.peers.mlserver import MLServer
from tests.bench.peers.ours import Adapter, BareTorchScript, MarRuntime
from tests.bench.peers.peer import NotThere, Peer
from tests.bench.peers.torchserve import KServeHop, NativeTorchServe, TorchServe
from tests.bench.processes import BOTH_CORES, ONE_CORE, Cores, ServerFailed
from tests.bench.report import Measured, versions
from tests.bench.targets import Cell
from tests.bench.work import Work, load

log = logging.getLogger(__name__)

PEERS: tuple[Peer, ...] = (
    TorchServe(), NativeTorchServe(), KServeHop(), LitServe(), MLServer(), Adapter(), MarRuntime(), BareTorchScript(),
)  # fmt: skip
_RAW_BATCHES = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True)
class Round:
    work: str
    cores: Cores
    clients: tuple[int, ...]
    seconds: int  # a cell


FULL = (
    Round("mnist", ONE_CORE, (1, 8, 32, 128), 4),
    Round("mnist", BOTH_CORES, (1, 8, 32, 128), 4),
    *(Round(work, ONE_CORE, (1, 8, 32, 128), 3) for work in ("image", "noop", "big")),
    *(Round(work, BOTH_CORES, (32,), 3) for work in ("image", "noop", "big")),
)
QUICK = (
    Round("mnist", ONE_CORE, (1, 8, 32), 2),
    *(Round(work, ONE_CORE, (32,), 2) for work in ("image", "noop", "big")),
)


def measure(options: Options) -> Measured:
    """Rows, tables and the plot's data."""
    works = load(options)
    cells: list[Cell] = []
    notes: list[str] = []
    for round_ in QUICK if options.quick else FULL:
        for peer in PEERS:
            cells += _server(peer, round_, works[round_.work], options, notes)
    raw = raw_torch("mnist", options)
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
        what = f"{work.name}, {round_.cores.name}: {peer.name} ({label})"
        log.info("%s", what)
        try:
            yield from _launch(peer, round_, work, label, settings[label], options)
        except NotThere as error:
            notes.append(f"{what}: {error}")
        except ServerFailed as error:
            log.warning("%s %s", what, error)
            notes.append(f"{what}: {error}")


def _launch(peer: Peer, round_: Round, work: Work, label: str, setting: Any, options: Options) -> Iterator[Cell]:
    with launched(peer, work, setting, round_.cores, options) as server:
        server.warm_up(1 if options.quick else 2)
        for clients in round_.clients:
            seen = server.press(clients, round_.seconds)
            yield Cell(work.name, peer.name, label, round_.cores.name, **asdict(seen))


def raw_torch(work: str, options: Options) -> dict[str, float]:
    """Images per second of the model alone on one core, by what runs it and its batch size."""
    seconds = "1" if options.quick else "2"
    output = subprocess.run(
        ["taskset", "--cpu-list", ONE_CORE.server, environments.python("torch", options),
         environments.PROGRAMS / "raw_torch.py", work, environments.models(options), seconds,
         *map(str, _RAW_BATCHES)],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    return {name: round(rate, 1) for name, rate in json.loads(output).items()}


def _peer_versions() -> dict[str, str]:
    wanted = {"torch": "torch", "torchserve": "torchserve", "kserve": "kserve", "litserve": "litserve",
              "mlserver": "mlserver", "asgi": "uvicorn"}  # fmt: skip
    return {f"peer-{package}": environments.versions(peer)[package] for peer, package in wanted.items()}
