"""The rows of docs/troubleshooting.md that name a fix, and the ways in which tests try them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.build_cache import ROOT

PAGE = ROOT / "docs/troubleshooting.md"
Row = tuple[str, str]
"""The first two cells: a reason, an exit code or a status; and a message or a cause, of which a beginning is enough."""


@dataclass(frozen=True)
class Provoked:
    """What is said in the situation of a row, and once its fix is followed: nothing. Each gets a folder of its own."""

    row: Row
    said: str
    wrong: Callable[[Path], str]
    mended: Callable[[Path], str]


@dataclass(frozen=True)
class Observed:
    """States that only a cluster has: cases of `FAILING_SERVICES`, and a test that reaches one and follows the fix."""

    row: Row
    cases: tuple[str, ...]
    test: str


@dataclass(frozen=True)
class Elsewhere:
    """A test that provokes a row and follows its fix, with servers or a cluster."""

    row: Row
    test: str


Tried = Provoked | Observed | Elsewhere


def rows() -> Iterator[Row]:
    """Yield the first two cells of each row of the tables whose last column has fixes."""
    has_fixes = False
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells or set(line) <= set("|- "):
            continue
        if after and set(after) <= set("|- "):
            has_fixes = cells[-1].endswith("fix")
        elif has_fixes:
            yield cells[0], cells[1]


def is_of(tried: Tried, row: Row) -> bool:
    """Return whether a test is about this row."""
    first, second = tried.row
    return row[0] == first and row[1].startswith(second)
