"""Our servers of this checkout beside those of another one (`--before DIR`): what a change costs.

Both are up, on one core, and are loaded in turns, a second each; the medians are compared. They are started several
times, as one process is a few per cent slower than the next with the same code. Processor time for each request is
measured as well: other work of the machine changes it less than it changes a rate.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.options import Options
from tests.bench.peers.asgi import HttpLayer
from tests.bench.peers.launch import Launched, launched
from tests.bench.peers.ours import ROOT, Adapter, BareTorchScript, MarRuntime, sources
from tests.bench.peers.peer import Peer, Place
from tests.bench.processes import ONE_CORE, Command, Server
from tests.bench.report import Measured, Row, versions
from tests.bench.work import Question, Work, load

_SHARE = 0.97  # of the rate before
_MOST = 1.03  # times what a lone client waited before
_STARTS, _QUICK_STARTS = 3, 1
_TURNS = 4  # of each start
_SECONDS = 1


@dataclass(frozen=True)
class Compared:
    """One server and work, and how many clients ask it."""

    id: str
    what: str
    peer: Peer
    work: str
    clients: int
    v2: bool = False


_COMPARED = (
    Compared("http-noop", "HTTP layer, a no-op, 32 clients", HttpLayer(), "noop", 32),
    Compared("http-mnist", "HTTP layer, a no-op on the MNIST body, 32 clients", HttpLayer(), "mnist", 32),
    Compared("mar-noop", "`isvc-mar`, no-op handler, 32 clients", MarRuntime(), "noop", 32),
    Compared("mar-noop-v2", "the same by v2", MarRuntime(), "noop", 32, v2=True),
    Compared("mar-noop-idle", "`isvc-mar`, no-op handler, 1 client", MarRuntime(), "noop", 1),
    Compared("mar-mnist", "`isvc-mar`, MNIST, 32 clients", MarRuntime(), "mnist", 32),
    Compared("mar-mnist-idle", "`isvc-mar`, MNIST, 1 client", MarRuntime(), "mnist", 1),
    Compared("bare-mnist", "bare TorchScript, MNIST, 32 clients", BareTorchScript(), "mnist", 32),
    Compared("bare-mnist-idle", "bare TorchScript, MNIST, 1 client", BareTorchScript(), "mnist", 1),
    Compared("adapter-noop", "adapter + TorchServe, no-op handler, 32 clients", Adapter(), "noop", 32),
    Compared("adapter-noop-idle", "adapter + TorchServe, no-op handler, 1 client", Adapter(), "noop", 1),
)


@dataclass(frozen=True)
class _Of:
    """A server of ours from the checkout at `root`."""

    peer: Peer
    root: Path
    v2: bool

    @property
    def name(self) -> str:
        return self.peer.name

    def settings(self, work: Work, cores: int) -> Mapping[str, Any]:
        return self.peer.settings(work, cores)

    def commands(self, place: Place, setting: Any) -> Sequence[Command]:
        return [
            Command(
                [str(argument).replace(str(ROOT / "tests"), str(self.root / "tests")) for argument in command.argv],
                {**command.environment, "PYTHONPATH": sources(self.root)},
            )
            for command in self.peer.commands(place, setting)
        ]

    def question(self, work: Work, server: Server) -> Question:
        return work.v2() if self.v2 else self.peer.question(work, server)


def measure(options: Options) -> Measured:
    """A row for the rate or the waiting time of each, and one for its processor time."""
    if options.before is None:
        raise SystemExit("before: say where the other checkout is: make bench ARGS='before --before DIR'")
    works = load(options)
    rows: list[Row] = []
    cells: list[Mapping[str, Any]] = []
    for compared in _COMPARED:
        seen = _starts(compared, works, options, options.before.absolute())
        cells += [{"id": compared.id, "checkout": name, **cell} for name, turns in seen.items() for cell in turns]
        rows += _rows(compared, seen)
    return Measured(rows, versions(), cells)


def _starts(
    compared: Compared, works: Mapping[str, Work], options: Options, before: Path
) -> dict[str, list[dict[str, float]]]:
    work = works[compared.work]
    if isinstance(compared.peer, HttpLayer):
        work = dataclasses.replace(work, prediction=0)
    seen: dict[str, list[dict[str, float]]] = {"before": [], "now": []}
    for _ in range(_QUICK_STARTS if options.quick else _STARTS):
        for name, turns in _turns(compared, work, options, before).items():
            seen[name] += turns
    return seen


def _turns(compared: Compared, work: Work, options: Options, before: Path) -> dict[str, list[dict[str, float]]]:
    seen: dict[str, list[dict[str, float]]] = {"before": [], "now": []}
    with contextlib.ExitStack() as up:
        servers = {
            name: up.enter_context(_launched(_Of(compared.peer, root, compared.v2), work, options))
            for name, root in (("before", before), ("now", ROOT))
        }
        for server in servers.values():
            server.warm_up(2)
        for turn in range(_TURNS):
            for name in sorted(servers, reverse=bool(turn % 2)):
                seen[name].append(_turn(servers[name], compared.clients))
    return seen


def _launched(peer: Peer, work: Work, options: Options) -> contextlib.AbstractContextManager[Launched]:
    return launched(peer, work, next(iter(peer.settings(work, ONE_CORE.count).values())), ONE_CORE, options)


def _turn(launched: Launched, clients: int) -> dict[str, float]:
    before = _processor_s(launched.server)
    load = launched.press(clients, _SECONDS)
    used = _processor_s(launched.server) - before
    return {
        "requests_per_s": load.requests_per_s,
        "p50_ms": load.p50_ms,
        "processor_us": round(1e6 * used / max(1.0, load.requests_per_s * _SECONDS), 1),
        "failed": load.failed,
    }


def _processor_s(server: Server) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in server.processes())


def _rows(compared: Compared, seen: Mapping[str, Sequence[Mapping[str, float]]]) -> list[Row]:
    def row(id_: str, what: str, figure: str, unit: str, target: str, holds: Callable[[float], bool]) -> Row:
        before, now = (median(turn[figure] for turn in seen[name]) for name in ("before", "now"))
        return Row(
            f"{compared.id}{id_}", f"{compared.what}{what}", now, unit, target, holds(now / before), "before", before
        )

    first = (
        row("", ": p50", "p50_ms", "ms", f"≤ {_MOST} ×", lambda ratio: ratio <= _MOST)
        if compared.clients == 1
        else row("", "", "requests_per_s", "req/s", f"≥ {_SHARE} ×", lambda ratio: ratio >= _SHARE)
    )
    used = row("-processor", ": processor time a request", "processor_us", "µs", "–", lambda _: True)
    return [first, used]
