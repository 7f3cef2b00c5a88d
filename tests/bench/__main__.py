"""``python -m tests.bench [SUITE …]``: run suites, print their tables, write docs/benchmarks/<suite>.json.

Suites: ``operator`` (a real API server), ``start`` (the cluster of `make cluster-up`).
"""

from __future__ import annotations

import argparse
import importlib
import sys
from datetime import UTC, datetime

from tests.bench.report import Report

SUITES = ("operator", "start")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("suites", nargs="*", choices=[*SUITES, []], metavar="SUITE", help="default: all")
    for suite in parser.parse_args().suites or SUITES:
        module = importlib.import_module(f"tests.bench.{suite}_suite")
        rows, versions = module.measure()
        report = Report(suite, datetime.now(UTC).date().isoformat(), rows, versions)
        path = report.write()
        sys.stdout.write(f"\n## {suite}\n\n{report.table()}\n\nwritten to {path.relative_to(path.parents[2])}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
