"""From cells to what they say: our servers against the peers' best, and a table for each work. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.bench.report import Row, slug
from tests.bench.work import Work

TORCHSERVE, NATIVE, HOP = "TorchServe", "TorchServe, native batching", "KServe's ModelServer + TorchServe"
ADAPTER, MAR, BARE = "ours: adapter + TorchServe", "ours: .mar runtime", "ours: bare TorchScript"
ONE = "one core"
# How many times their rate ours has to reach, with a real model.
_PEERS = {"LitServe": 2, "MLServer": 2, "mosec": 1, "PyTriton": 1}


@dataclass(frozen=True)
class Cell:
    """One measurement: a server with a setting, so many clients."""

    work: str
    server: str
    setting: str
    cores: str
    clients: int
    requests_per_s: float
    p50_ms: float
    p90_ms: float
    p99_ms: float
    failed: int


@dataclass(frozen=True)
class Best:
    """Cells to be asked for the best setting of a server."""

    cells: Sequence[Cell]

    def rate(self, server: str, cores: str, clients: int | None = None, work: str = "mnist") -> float | None:
        """Requests per second, with any number of clients if none is told."""
        found = self._of(server, cores, clients, work)
        return max((cell.requests_per_s for cell in found), default=None)

    def _of(self, server: str, cores: str, clients: int | None, work: str) -> list[Cell]:
        return [
            cell
            for cell in self.cells
            if (cell.work, cell.server, cell.cores) == (work, server, cores) and clients in (None, cell.clients)
        ]


def rows(cells: Sequence[Cell], raw: float) -> list[Row]:
    """The targets that these cells can judge. ``raw`` is the bare model's best on one core."""
    best = Best(cells)
    found: list[Row | None] = [*_shares(best, raw)]
    for cores in dict.fromkeys(cell.cores for cell in cells):
        found += [_times(best, ADAPTER, HOP, 6, cores), _times(best, ADAPTER, TORCHSERVE, 2.5, cores)]
        found += [_times(best, ADAPTER, NATIVE, 1, cores)]
        for clients in (8, 32):
            found += [_times(best, MAR, peer, factor, cores, clients) for peer, factor in _PEERS.items()]
    return [row for row in found if row is not None]


def _shares(best: Best, raw: float) -> Iterator[Row]:
    for server, share in ((MAR, 0.65), (BARE, 0.75)):
        ours = best.rate(server, ONE)
        if ours is not None:
            yield Row(
                slug(f"{server} of raw torch"), f"{server}: best throughput on one core", ours,
                "req/s", f"≥ {share:.0%}", ours >= share * raw, "raw torch in a loop, best of batch 1–32", raw,
            )  # fmt: skip


def _times(best: Best, server: str, peer: str, factor: float, cores: str, clients: int = 32) -> Row | None:
    ours, theirs = best.rate(server, cores, clients), best.rate(peer, cores, clients)
    if ours is None or theirs is None:
        return None
    return Row(slug(f"{server} vs {peer} {clients} {cores}"), f"{server}, {clients} clients, {cores}", ours,
               "req/s", f"≥ {factor:g}×", ours >= factor * theirs, peer, theirs)  # fmt: skip


def tables(cells: Sequence[Cell], works: Mapping[str, Work]) -> str:
    """A table for each work and choice of cores: servers down, clients across; the best setting each time."""
    rounds = dict.fromkeys((cell.work, cell.cores) for cell in cells)
    return "\n\n".join(
        _table(f"{works[work].what}; {cores}", [cell for cell in cells if (cell.work, cell.cores) == (work, cores)])
        for work, cores in rounds
    )


def _table(title: str, cells: Sequence[Cell]) -> str:
    clients = sorted({cell.clients for cell in cells})
    heads = ["1 client" if number == 1 else f"{number} clients" for number in clients]
    lines = [f"**{title}**; requests per second (p50, p99 in ms)", "", f"| server | {' | '.join(heads)} |"]
    lines.append("|---" * (len(heads) + 1) + "|")
    for server in dict.fromkeys(cell.server for cell in cells):
        found = [
            _text([cell for cell in cells if (cell.server, cell.clients) == (server, number)]) for number in clients
        ]
        lines.append(f"| {server} | {' | '.join(found)} |")
    return "\n".join(lines)


def _text(cells: Sequence[Cell]) -> str:
    if not cells:
        return "–"
    best = max(cells, key=lambda cell: cell.requests_per_s)
    failed = f", **{best.failed} failed**" if best.failed else ""
    return f"{best.requests_per_s:,.0f} ({best.p50_ms:.3g}, {best.p99_ms:.3g}){failed}"
