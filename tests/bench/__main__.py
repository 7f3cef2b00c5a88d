"""``python -m tests.bench [SUITE …]``: run suites, print their tables, write docs/benchmarks/<suite>.json.

Suites: operator (a real API server), start, disruptions, upgrade, takeover and migrate (the cluster of `make
cluster-up`), autoscaling (that cluster, after `bash tests/cluster/autoscaling`), storage (a real S3), transformer (our
SDK beside KServe's), and those of the data plane on this machine: serving, idle, batching, streaming, latency, memory,
serverstart, httplayer, logger; `dataplane` stands for these nine. scale and soak: many services, whose pods KWOK
plays. clientbench: `isvc bench` beside wrk and vegeta.
dashboard: its pages in Chromium. `before --before DIR` compares our servers with those of
another checkout.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from tests.bench.environments import UV
from tests.bench.options import Options
from tests.bench.report import QUICK_RESULTS, RESULTS, Report

DATAPLANE = ("httplayer", "serverstart", "serving", "idle", "latency", "batching", "streaming", "memory", "logger")
SUITES = (
    "operator",
    "start",
    "disruptions",
    "upgrade",
    "takeover",
    "autoscaling",
    "storage",
    "transformer",
    *DATAPLANE,
    "clientbench",
    "dashboard",
)
BEFORE = "before"  # for which another checkout is needed
MIGRATE = "migrate"  # for which the cluster has no operator yet
LONG = ("scale", "soak")  # half an hour, and two hours; Go is needed once
PLOTS = {"serving": "plot.py", "scale": "plot_scale.py", "soak": "plot_soak.py"}
MATPLOTLIB = "matplotlib==3.10.8"


def main() -> int:
    arguments = parser().parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "isvc-operator"
    options = Options(
        arguments.quick, arguments.instances, cache, os.environ, before=arguments.before,
        minutes=arguments.minutes, services=arguments.services, profile=arguments.profile,
    )  # fmt: skip
    for suite in expand(arguments.suites):
        run(suite, options, QUICK_RESULTS if options.quick else RESULTS)
    return 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    made.add_argument(
        "suites",
        nargs="*",
        choices=[*SUITES, BEFORE, MIGRATE, *LONG, "dataplane", []],
        metavar="SUITE",
        help="default: all",
    )
    made.add_argument("--quick", action="store_true", help="few cells, in minutes; writes to build/benchmarks instead")
    made.add_argument("--instances", type=int, default=1_000_000, help="how many the batching suite checks")
    made.add_argument("--before", type=Path, metavar="DIR", help="the other checkout of the suite `before`")
    made.add_argument("--minutes", type=float, help="how long the suite `soak` lasts; default: 120")
    made.add_argument("--services", type=int, help="how many services the suite `scale` creates; default: 1000")
    made.add_argument("--profile", action="store_true", help="the suite `scale` only profiles the operator")
    return made


def expand(suites: Sequence[str]) -> Sequence[str]:
    """The suites by their own names."""
    return [name for suite in suites or SUITES for name in (DATAPLANE if suite == "dataplane" else [suite])]


def run(suite: str, options: Options, results: Path) -> None:
    """Measure, print, write."""
    measured = importlib.import_module(f"tests.bench.{suite}_suite").measure(options)
    if not measured.rows:
        sys.stdout.write(f"\n## {suite}\n\n{measured.tables}\n")
        return
    report = Report(suite, datetime.now(UTC).date().isoformat(), measured)
    path = report.write(results)
    sys.stdout.write(f"\n## {suite}\n\n{report.table()}\n\nwritten to {path.relative_to(RESULTS.parents[1])}\n")
    sys.stdout.flush()
    if program := PLOTS.get(suite):
        subprocess.run(
            [UV, "run", "--quiet", "--no-project", "--with", MATPLOTLIB, "python",
             Path(__file__).with_name(program), path, path.with_suffix(".svg")],
            check=True,
        )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
