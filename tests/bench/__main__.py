"""``python -m tests.bench [SUITE …]``: run suites, print their tables, write docs/benchmarks/<suite>.json.

Suites: operator (a real API server), start and disruptions (the cluster of `make cluster-up`), starts (the .mar runtime
alone), storage (a real S3), transformer (our SDK beside KServe's), serving (our runtimes beside other servers),
health (hostile clients).
migrate needs a cluster without the operator; scale creates many services, whose pods KWOK plays, for half an hour.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from tests.bench.environments import UV
from tests.bench.options import Options
from tests.bench.report import QUICK_RESULTS, RESULTS, Report

SUITES = ("operator", "start", "starts", "disruptions", "storage", "transformer", "serving", "health")
BY_NAME_ALONE = ("migrate", "scale")
PLOTS = {"serving": "plot.py", "scale": "plot_scale.py"}
MATPLOTLIB = "matplotlib==3.10.8"


def main() -> int:
    arguments = parser().parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "isvc-operator"
    options = Options(arguments.quick, cache, os.environ, arguments.before)
    for suite in arguments.suites or SUITES:
        run(suite, options, QUICK_RESULTS if options.quick else RESULTS)
    return 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    made.add_argument(
        "suites",
        nargs="*",
        choices=[*SUITES, *BY_NAME_ALONE, []],
        metavar="SUITE",
        help="default: all but migrate and scale",
    )
    made.add_argument("--quick", action="store_true", help="few cells, in minutes; writes to build/benchmarks instead")
    made.add_argument("--before", type=Path, metavar="DIR", help="another checkout that `scale` and `starts` run, too")
    return made


def run(suite: str, options: Options, results: Path) -> None:
    """Measure, print, write."""
    measured = importlib.import_module(f"tests.bench.{suite}_suite").measure(options)
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
