"""`python -m tests.models` serves every model by every protocol, and writes docs/real-models.md."""

from __future__ import annotations

import functools
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.models import asking, models
from tests.models.asking import PROTOCOLS
from tests.models.packages import REQUIREMENTS

PAGE = Path(__file__).parents[2] / "docs/real-models.md"
HEAD = """# Real models

<!-- Written by `python -m tests.models`. -->

These models are published on PyPI, or made with its packages. [The suite](../tests/models) serves each of them as its
users would: a [bare model](bare-models.md), or an archive with a requirements file. It compares each answer with what
the model's own library computes beside the server.

- **equal**: all outputs have the same names, datatypes and shapes. Numbers differ by at most 1e-5 of the largest one,
  because torch computes sums in another order. Text and whole numbers are the same. Over v2, outputs that are maps are
  left out.
- **start**: from the start of the process until the model is ready. For an archive with requirements, this includes
  their installation.
- **p50**: the median of {requests} requests, one after the other, each on a new connection. It includes the client,
  which is written in Python.

Measured on a shared machine with {processors} processors.

| model | runtime | protocol | equal | start | p50 |
|---|---|---|---|---|---|
"""
REQUESTS = 50


@dataclass(frozen=True)
class Row:
    """What one protocol of a server gave."""

    model: str
    runtime: str
    protocol: str
    difference: str
    start_s: float
    p50_ms: float

    def __str__(self) -> str:
        equal = self.difference or "yes"
        cells = (self.model, self.runtime, self.protocol, equal, f"{self.start_s:.1f} s", f"{self.p50_ms:.1f} ms")
        return f"| {' | '.join(cells)} |"


def measure(name: str, kind: str) -> Iterator[Row]:
    case = models.read(name)
    started = time.monotonic()
    with models.served(case, kind) as runtime:
        runtime.wait_ready([name])
        start_s = time.monotonic() - started
        for protocol, ask in PROTOCOLS.items():
            answers = asking.walk(runtime, case, ask)
            wanted = [asking.expected(step, protocol) for step in case.steps]
            differences = filter(None, map(asking.differs, answers, wanted))
            again = functools.partial(ask, runtime, case, case.steps[-1].inputs)
            times = [_timed(again) for _ in range(REQUESTS)]
            yield Row(
                models.TITLES[name], models.RUNTIMES[kind], protocol, next(differences, ""), start_s,
                1000 * statistics.median(times),
            )  # fmt: skip


def _timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def render(rows: Sequence[Row]) -> str:
    versions = "\n".join(f"- {line}" for line in REQUIREMENTS.read_text().splitlines())
    head = HEAD.format(requests=REQUESTS, processors=os.cpu_count())
    return head + "\n".join(map(str, rows)) + f"\n\nThe packages:\n\n{versions}\n"


def main() -> None:
    rows = []
    for name, kind in models.SERVED:
        for row in measure(name, kind):
            sys.stdout.write(f"{row}\n")
            sys.stdout.flush()
            rows.append(row)
    PAGE.write_text(render(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
