"""Two hours with a hundred services, of which one is created, changed, failed or deleted each second.

The operator's memory must stay flat, and each of its writes must have a cause (``scale/causes.py``). ``--minutes`` sets
another duration; with --quick it is three minutes.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, NoReturn

import psutil

from tests.bench.options import Options
from tests.bench.report import Measured, Row, versions
from tests.bench.scale.causes import Causes
from tests.bench.scale.cluster import Cluster, Memory, cpu_seconds, running_cluster
from tests.bench.scale.contenders import Ours, Running
from tests.bench.scale.following import Following
from tests.bench.scale.services import RUNTIMES, create_claim, failed_status, is_ready, runtime, service, services_path
from tests.support.apiserver import ApiServer, Refused, find_assets, install_crds
from tests.support.operator_process import OPERATOR
from tests.support.waiting import eventually

log = logging.getLogger(__name__)

SERVICES = 100
NAME = "model"  # of each service, which has a namespace of its own
MINUTES, QUICK_MINUTES = 120.0, 3.0
GROWTH = 0.02
_SAMPLE = 5  # seconds
_REPORT = 60  # seconds
_START = 120.0  # seconds for all services to become Ready
_MERGE = "application/merge-patch+json"

# Writes alone, after the answer. A file is 64 MB at most, and three old ones are kept, which are read long before.
_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted", "Panic"],
    "rules": [
        {"level": "None", "users": ["system:apiserver"]},
        {"level": "None", "verbs": ["get", "list", "watch"]},
        {"level": "None", "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}]},
        {"level": "Metadata"},
    ],
}
_ROTATION = ("--audit-log-maxsize=64", "--audit-log-maxbackup=3", "--event-ttl=10m")


@dataclass
class Soak:
    """Events until now; ``samples`` are the memory after so many seconds."""

    causes: Causes = field(default_factory=lambda: Causes(OPERATOR))
    done: Counter[str] = field(default_factory=Counter)
    samples: list[tuple[float, Memory]] = field(default_factory=list)
    cpu: float = 0.0  # seconds


def measure(options: Options) -> Measured:
    """Rows of the suite."""
    seconds = 60 * (options.minutes or (QUICK_MINUTES if options.quick else MINUTES))
    assets = find_assets(options.environment.get("KUBEBUILDER_ASSETS"))
    with _ended_by_a_signal(), tempfile.TemporaryDirectory() as folder:
        policy = Path(folder) / "policy.json"
        policy.write_text(json.dumps(_POLICY))
        flags = (f"--audit-policy-file={policy}", *_ROTATION)
        with (
            running_cluster(assets, Path(folder), _install, *flags) as cluster,
            Ours().running(cluster) as operator,
        ):
            soak = _soaked(cluster, operator, seconds)
    return _measured(soak, seconds)


def _measured(soak: Soak, seconds: float) -> Measured:
    window, causes = f"{seconds / 240:g} minutes", soak.causes
    rows = [
        *(_memory_row(soak, seconds / 4, window, kind) for kind in ("rss", "pss", "uss")),
        Row("soak-without-cause", f"writes of the operator without a cause, of {causes.writes:,}", len(causes.without),
            "", "0", not causes.without),
        Row("soak-actions", f"services created, changed, failed or deleted in {seconds / 60:g} minutes",
            soak.done.total(), "", "–", True),
        Row("soak-cpu", "processor time of the operator", round(soak.cpu / seconds, 3), "cores", "–", True),
    ]  # fmt: skip
    cells = [{"seconds": round(at), **asdict(memory)} for at, memory in soak.samples]
    notes = [f"{name}: {number}" for name, number in sorted(soak.done.items())]
    return Measured(rows, versions(), cells=cells, notes=[*notes, *causes.without[:50]])


def _memory_row(soak: Soak, quarter: float, window: str, kind: str) -> Row:
    """The mean of the last quarter beside that of the first; only what is resident does not depend on others."""
    end = soak.samples[-1][0]
    first = fmean(getattr(memory, kind) for at, memory in soak.samples if at <= quarter)
    last = fmean(getattr(memory, kind) for at, memory in soak.samples if at >= end - quarter)
    most = f"≤ {1 + GROWTH:g}×" if kind == "rss" else "–"
    holds = kind != "rss" or last <= (1 + GROWTH) * first
    what = f"memory ({kind.upper()}), mean of the last {window}"
    return Row(f"soak-{kind}", what, round(last, 1), "MiB", most, holds,
               f"the first {window}", round(first, 1))  # fmt: skip


def _install(server: ApiServer) -> None:
    install_crds(server)
    server.send("POST", RUNTIMES, runtime())
    for number in range(SERVICES):
        server.create_namespace(_namespace(number))
        create_claim(server, _namespace(number))


def _soaked(cluster: Cluster, operator: Running, seconds: float) -> Soak:
    """A change each second."""
    server, soak, following = cluster.server, Soak(), Following(cluster.server.audit_log)
    changes = Changes(server)
    for number in range(SERVICES):
        changes.create(number)
    eventually(lambda: _all_ready(server), "all services are Ready", _START, lambda: _tail(cluster))
    with contextlib.closing(following):
        began, cpu = time.monotonic(), cpu_seconds(operator.process)
        for second in itertools.count():
            now = time.monotonic() - began
            if now >= seconds:
                break
            assert operator.process.status() != psutil.STATUS_ZOMBIE, f"the operator has ended\n{_tail(cluster)}"
            soak.done[changes.next()] += 1
            soak.causes.read(following.lines())
            if second % _SAMPLE == 0:
                soak.samples.append((now, Memory.of(operator.process)))
            if second % _REPORT == 0:
                _report(soak, second)
            time.sleep(max(0.0, began + second + 1 - time.monotonic()))
        soak.cpu = cpu_seconds(operator.process) - cpu
        soak.causes.read(following.lines())
        soak.causes.end()
    return soak


@dataclass
class Changes:
    """One after the other: change a service (a failed one first), fail one, delete one, create it again.

    The choice is random, and the same in each run.
    """

    server: ApiServer
    _random: random.Random = field(default_factory=lambda: random.Random(1))
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _present: set[int] = field(default_factory=set)
    _failed: list[int] = field(default_factory=list)
    _deleted: list[int] = field(default_factory=list)

    def next(self) -> str:
        """Make the next change, and return what it was."""
        number = next(self._numbers)
        match number % 4:
            case 0:
                self.change(self._failed[0] if self._failed else self._any(), str(number))
                return "changed"
            case 1:
                return self.fail(self._any())
            case 2:
                self.delete(self._any())
                return "deleted"
            case _:
                self.create(self._deleted.pop())
                return "created"

    def create(self, number: int) -> None:
        """Create the service of this number."""
        self.server.send("POST", services_path(_namespace(number)), service(NAME, _namespace(number)))
        self._present.add(number)

    def change(self, number: int, value: str) -> None:
        """Change an environment variable of its server, so that it gets new pods."""
        spec = service(NAME, _namespace(number), VALUE=value)["spec"]
        self.server.send("PATCH", self._path(number), {"spec": spec}, content=_MERGE)
        self._heal(number)

    def fail(self, number: int) -> str:
        """Let its pods fail; it may have none yet, or not any more."""
        pods = f"/api/v1/namespaces/{_namespace(number)}/pods"
        found = [item["metadata"]["name"] for item in self.server.send("GET", pods)["items"]]
        for name in found:
            with contextlib.suppress(Refused):  # it is deleted
                self.server.send("PATCH", f"{pods}/{name}/status", failed_status(),
                                 content="application/strategic-merge-patch+json")  # fmt: skip
        self._failed.append(number)
        return "failed" if found else "failed, without a pod"

    def delete(self, number: int) -> None:
        """Delete the service, which ``create`` makes again."""
        self.server.send("DELETE", self._path(number))
        self._present.discard(number)
        self._deleted.append(number)
        self._heal(number)

    def _any(self) -> int:
        return self._random.choice(sorted(self._present))

    def _heal(self, number: int) -> None:
        self._failed = [item for item in self._failed if item != number]

    @staticmethod
    def _path(number: int) -> str:
        return f"{services_path(_namespace(number))}/{NAME}"


def _namespace(number: int) -> str:
    return f"team-{number}"


def _all_ready(server: ApiServer) -> bool:
    items: list[dict[str, Any]] = server.send("GET", services_path())["items"]
    return len(items) == SERVICES and all(map(is_ready, items))


def _report(soak: Soak, second: int) -> None:
    causes = soak.causes
    log.info("%5d s: %s, %d writes, %d changes, %d writes without a cause %s", second, soak.samples[-1][1],
             causes.writes, causes.changes, len(causes.without), causes.without[-3:])  # fmt: skip


def _tail(cluster: Cluster) -> str:
    return (cluster.folder / "operator.log").read_text()[-3000:]


@contextlib.contextmanager
def _ended_by_a_signal() -> Iterator[None]:
    """SIGTERM ends the block as an error does, so that all processes are stopped."""

    def end(number: int, frame: object) -> NoReturn:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
