"""A thousand services, beside KServe's manager; a hundred to five thousand of ours.

What no program can be faster than is measured, too (``scale/least.py``).

Each program gets a new cluster (``scale/cluster.py``): the pods exist in the API server only, and are ready at once.
KServe's manager has no limit of processor time here. First Kubernetes' controllers have no limit of calls, so that the
programs are compared, then their own, which most clusters have. ``--before DIR`` runs the operator of another checkout,
too.
"""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from tests.bench.options import Options
from tests.bench.report import Measured, Row, versions
from tests.bench.scale.contenders import KServe, Ours
from tests.bench.scale.least import Least, least
from tests.bench.scale.trial import Created, Failed, Idle, Restarted, Rolled, trial, verbs
from tests.support.apiserver import find_assets

log = logging.getLogger(__name__)

SERVICES, QUICK_SERVICES = 1000, 30
FLAT = (0.1, 0.3, 5)  # of the services: for how many more the cost of each is measured
FAILURES = 10
RATE = 0.6  # of the services are let begin in a minute, where a changed runtime is followed slowly
IDLE, KSERVES_IDLE = 300, 60  # seconds
READS = {"discover", "list", "watch"}
PEER = "KServe 0.20"
Cell = TypeVar("Cell")


@dataclass(frozen=True)
class Limited:
    """With the limit that Kubernetes' controllers have."""

    ours: Created
    theirs: Created
    least: Least


@dataclass(frozen=True)
class Found:
    """What was measured."""

    ours: Created
    restarted: Restarted
    idle: Idle
    rolled: Rolled
    slowly: Rolled
    rate: int  # of the slow roll, in a minute
    failed: Failed
    theirs: Created
    their_restart: Restarted
    their_idle: Idle
    their_failed: Failed
    before: Created | None  # the operator of another checkout
    least: Least
    limited: Limited
    sizes: list[Created]


def measure(options: Options) -> Measured:
    """Rows of the suite."""
    assets = find_assets(options.environment.get("KUBEBUILDER_ASSETS"))
    count = QUICK_SERVICES if options.quick else SERVICES
    scale = 0.1 if options.quick else 1.0
    found = _found(assets, count, scale, options.before)
    cells = [{"cell": name, **cell} for name, cell in _cells(found)]
    return Measured(_rows(found), versions(kserve="0.20.0", kwok="0.8.0"), cells=cells, tables=_tables(found))


def _found(assets: Path, count: int, scale: float, root: Path | None) -> Found:
    """``scale``: of the seconds that idle programs are watched, of the number of failures, and of the slow roll."""
    before: Created | None = None
    failures, rate, rest = max(3, int(FAILURES * scale)), int(RATE * count / scale), {}

    with trial(KServe(), assets) as mine:
        theirs = _logged("KServe", mine.create(count))

        def theirs_go_on(running: Any) -> None:
            rest["idle"] = _logged("KServe", mine.idle(running, KSERVES_IDLE * scale))
            rest["failed"] = _logged("KServe", mine.fail(3))

        their_restart = _logged("KServe", mine.restart(theirs_go_on))
    their_idle, their_failed = rest["idle"], rest["failed"]
    with trial(Ours(), assets) as mine:
        ours = _logged("ours", mine.create(count))

        def ours_go_on(running: Any) -> None:
            rest["idle"] = _logged("ours", mine.idle(running, IDLE * scale))
            rest["rolled"] = _logged("ours", mine.roll("2"))

        def ours_rolls_slowly(_: Any) -> None:
            rest["slowly"] = _logged("ours", mine.roll("3"))
            rest["failed"] = _logged("ours", mine.fail(failures))

        restarted = _logged("ours", mine.restart(ours_go_on))
        mine.contender = Ours(rollouts_per_minute=rate)
        mine.restart(ours_rolls_slowly)
    if root is not None:
        with trial(Ours(root=root.absolute()), assets) as mine:
            before = _logged("before", mine.create(count))
    with trial(Ours(), assets) as mine:
        bare = _logged("no program", least(mine, count))
    limited = _limited(assets, count)
    sizes = [ours]
    for share in FLAT:
        with trial(Ours(), assets) as mine:
            sizes.append(_logged("ours", mine.create(max(1, int(share * count)))))
    return Found(
        ours, restarted, rest["idle"], rest["rolled"], rest["slowly"], rate, rest["failed"], theirs, their_restart,
        their_idle, their_failed, before, bare, limited, sorted(sizes, key=lambda cell: cell.services),
    )  # fmt: skip


def _limited(assets: Path, count: int) -> Limited:
    with trial(KServe(), assets, limited=True) as mine:
        theirs = _logged("KServe, limited", mine.create(count))
    with trial(Ours(), assets, limited=True) as mine:
        ours = _logged("ours, limited", mine.create(count))
    with trial(Ours(), assets, limited=True) as mine:
        bare = _logged("no program, limited", least(mine, count))
    return Limited(ours, theirs, bare)


def _logged(name: str, cell: Cell) -> Cell:
    log.info("%s: %s", name, cell)
    return cell


def _rows(found: Found) -> list[Row]:
    ours, theirs, largest = found.ours, found.theirs, found.sizes[-1]
    idle_calls = sum(found.idle.calls.values())
    restart_writes = sum(number for verb, number in found.restarted.calls.items() if verb not in READS)
    their_writes = sum(number for verb, number in found.their_restart.calls.items() if verb not in READS)
    seen = [seconds for seconds in found.failed.seen if seconds is not None]
    slowest = max(seen) if len(seen) == len(found.failed.seen) else float("nan")
    caught_up, wrong = found.restarted.caught_up, found.rolled.wrong + found.slowly.wrong
    each = [_cpu_each(cell) for cell in found.sizes]
    return [
        *_created_rows("scale", f"{ours.services:,} services: ", ours, theirs),
        Row("scale-memory", "resident memory, the most", ours.rss, "MiB", "≤ 190", ours.rss <= 190, PEER, theirs.rss),
        Row("scale-memory-largest", f"… with {largest.services:,} services", largest.rss, "MiB", "≤ 560",
            largest.rss <= 560),
        Row("scale-cpu", "processor time of the operator", ours.cpu, "s", "≤ 0.5 × KServe's",
            ours.cpu <= 0.5 * theirs.cpu, PEER, theirs.cpu),
        *_before_rows(ours, found.before),
        Row("scale-restart", "restart: calls that discover, list and watch nothing", restart_writes, "calls", "0",
            restart_writes == 0, PEER, their_writes),
        Row("scale-restart-time", "restart: process started → each service reconciled", caught_up, "s", "–",
            True, PEER, found.their_restart.caught_up),
        Row("scale-idle", f"idle for {found.idle.seconds:g} s: calls", idle_calls, "calls", "≤ 0.1 a second",
            idle_calls <= 0.1 * found.idle.seconds, f"{PEER}, {found.their_idle.seconds:g} s",
            sum(found.their_idle.calls.values())),
        Row("scale-idle-cpu", "idle: processor time", found.idle.cores, "cores", "≤ 0.005", found.idle.cores <= 0.005,
            PEER, found.their_idle.cores),
        Row("scale-roll", "image of the runtime changed → all pods of the new one", found.rolled.available, "s", "–",
            True),
        Row("scale-roll-wrong", "… services whose last status is wrong", wrong, "", "0", wrong == 0),
        Row("scale-roll-rate", f"… with rolloutsPerMinute={found.rate:,}: begun in a minute, the most",
            found.slowly.in_a_minute, "", f"≤ {found.rate:,} + 5 %", found.slowly.in_a_minute <= 1.05 * found.rate),
        Row("scale-failure", f"a pod's failure → on the resource, slowest of {len(found.failed.seen)}", slowest, "s",
            "≤ 2", slowest <= 2, f"{PEER}: {sum(at is not None for at in found.their_failed.seen)} of 3 named"),
        Row("scale-flat", f"processor time a service with {found.sizes[-1].services:,} services", each[-1], "ms",
            "flat: ≤ 1.2×", each[-1] <= 1.2 * each[0], f"with {found.sizes[0].services:,}", each[0]),
        *_created_rows("scale-limited", "controllers with their limit of calls: ", found.limited.ours,
                       found.limited.theirs),
    ]  # fmt: skip


def _before_rows(ours: Created, before: Created | None) -> list[Row]:
    if before is None:
        return []
    return [Row("scale-before", "… beside the operator of another checkout", ours.cpu, "s", "≤ 1.5×",
                ours.cpu <= 1.5 * before.cpu, "before", before.cpu)]  # fmt: skip


def _created_rows(id_: str, setup: str, ours: Created, theirs: Created) -> list[Row]:
    def beside(name: str, what: str, mine: float, other: float, most: float) -> Row:
        target = f"≤ {most:g} × KServe's"
        return Row(f"{id_}-{name}", what, mine, "s", target, mine <= most * other, PEER, other)

    calls = ours.calls_each
    return [
        beside("children", f"{setup}all Deployments and Services exist", ours.children, theirs.children, 0.5),
        Row(f"{id_}-ready", "… all Ready", ours.ready, "s", "–", True, PEER, theirs.ready),
        Row(f"{id_}-calls", "… API calls a service, created to Ready", calls, "calls", "≤ 6", calls <= 6, PEER,
            theirs.calls_each),
        beside("api-server-cpu", "… processor time of the API server", ours.api_server_cpu, theirs.api_server_cpu, 0.5),
    ]  # fmt: skip


def _tables(found: Found) -> str:
    lines = [
        "| | services | client done, s | children, s | Ready, s | calls each | CPU, s | CPU each, ms | API server, s "
        "| most memory, MiB | yardstick, s |",
        "|" + "---|" * 11,
    ]
    for name, cell in [
        ("KServe", found.theirs), *(("ours", cell) for cell in found.sizes),
        *([("before", found.before)] if found.before else ()),
        ("KServe, limited controllers", found.limited.theirs), ("ours, limited controllers", found.limited.ours),
    ]:  # fmt: skip
        lines.append(f"| {name} | {cell.services:,} | {cell.client:g} | {cell.children:g} | {cell.ready:g} "
                     f"| {cell.calls_each:g} | {cell.cpu:g} | {_cpu_each(cell):g} | {cell.api_server_cpu:g} "
                     f"| {cell.rss:g} | {cell.yardstick:g} |")  # fmt: skip
    seen = sorted(seconds for seconds in found.failed.seen if seconds is not None)
    words = [
        f"Calls of ours, created to Ready: {verbs(found.ours.calls)}; of KServe: {verbs(found.theirs.calls)}.",
        f"With limited controllers: {verbs(found.limited.ours.calls)}; {verbs(found.limited.theirs.calls)}.",
        f"Restart of ours: {verbs(found.restarted.calls)}, {found.restarted.cpu:g} s of CPU; of KServe: "
        f"{verbs(found.their_restart.calls)}, {found.their_restart.cpu:g} s.",
        f"Idle, ours: {verbs(found.idle.calls)}.",
        f"Rolled: first Deployment after {found.rolled.first:g} s, last one after {found.rolled.changed:g} s, "
        f"{found.rolled.in_a_minute} in a minute at most; "
        f"{verbs(found.rolled.calls)}. At the rate: the last one after {found.slowly.changed:g} s, "
        f"{found.slowly.wrong} wrong.",
        f"Failures named: {len(seen)} of {len(found.failed.seen)}, "
        f"p50 {median(seen) if seen else float('nan'):g} s; KServe: {found.their_failed.seen}.",
    ]
    for name, bare in (("no program", found.least), ("no program, limited controllers", found.limited.least)):
        lines.append(f"| {name}: a client creates the children | {bare.services:,} | – | {bare.children:g} "
                     f"| {bare.available:g} (pods) | – | – | – | {bare.api_server_cpu:g} | – "
                     f"| {bare.yardstick:g} |")  # fmt: skip
    return "\n".join(lines) + "\n\n" + "\n".join(f"- {line}" for line in words)


def _cells(found: Found) -> list[tuple[str, dict[str, Any]]]:
    apart = {"sizes", "rate", "limited"}
    named = {name: cell for name, cell in vars(found).items() if name not in apart and cell is not None}
    limited = {f"limited_{name}": cell for name, cell in vars(found.limited).items()}
    sizes = (("size", asdict(cell)) for cell in found.sizes)
    return [*((name, asdict(cell)) for name, cell in (named | limited).items()), *sizes]


def _cpu_each(cell: Created) -> float:
    """Milliseconds a service."""
    return round(1000 * cell.cpu / cell.services, 1)
