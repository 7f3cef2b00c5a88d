"""What every suite reports: rows with a target each, printed as a table and kept as JSON to be followed over time."""

from __future__ import annotations

import json
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[2] / "docs" / "benchmarks"
QUICK_RESULTS = RESULTS.parents[1] / "build" / "benchmarks"
_PACKAGES = ("isvc-operator", "kubernetes", "torch", "torchserve", "uvicorn", "aiohttp")


@dataclass(frozen=True)
class Row:
    """One figure. ``ratio`` is ours to theirs; ``target`` is in words, ``holds`` whether this run met it."""

    id: str
    what: str
    ours: float
    unit: str
    target: str
    holds: bool
    peer: str = ""
    theirs: float | None = None

    @property
    def ratio(self) -> float | None:
        return round(self.ours / self.theirs, 3) if self.theirs else None


@dataclass(frozen=True)
class Measured:
    """What a suite found: its rows, what they were made from, and what could not be measured."""

    rows: Sequence[Row]
    versions: Mapping[str, str]
    cells: Sequence[Mapping[str, Any]] = ()  # each measurement by itself
    notes: Sequence[str] = ()
    tables: str = ""  # the cells to be read, in Markdown


@dataclass(frozen=True)
class Report:
    """A suite's findings with its name and the date."""

    suite: str
    date: str
    measured: Measured

    def write(self, folder: Path = RESULTS) -> Path:
        """Write ``<suite>.json``; returns its path."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.suite}.json"
        found = self.measured
        data: dict[str, Any] = {"suite": self.suite, "date": self.date, "versions": dict(found.versions)}
        data["rows"] = [{**asdict(row), "ratio": row.ratio} for row in found.rows]
        if found.notes:
            data["notes"] = list(found.notes)
        if found.cells:
            data["cells"] = list(found.cells)
        path.write_text(json.dumps(data, indent=2) + "\n")
        return path

    def table(self) -> str:
        """The rows as a Markdown table, then the suite's own tables and notes."""
        lines = ["| what | ours | peer | ratio | target | holds |", "|---|---|---|---|---|---|"]
        for row in self.measured.rows:
            theirs = f"{row.theirs:g} {row.unit} ({row.peer})" if row.theirs is not None else row.peer or "–"
            ratio = f"{row.ratio:g}" if row.ratio is not None else "–"
            holds = "yes" if row.holds else "**no**"
            lines.append(f"| {row.what} | {row.ours:g} {row.unit} | {theirs} | {ratio} | {row.target} | {holds} |")
        notes = "\n".join(f"- {note}" for note in self.measured.notes)
        return "\n\n".join(filter(None, ["\n".join(lines), self.measured.tables, notes]))


def slug(words: str) -> str:
    """An id for a row: lower case, hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")


def versions(**more: str) -> dict[str, str]:
    """Versions of what a figure depends on."""
    found = {"python": platform.python_version(), "machine": _machine()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {**found, **more}


def _machine() -> str:
    cores = subprocess.run(["nproc"], capture_output=True, text=True, check=False).stdout.strip()
    return f"{platform.system()} {platform.machine()}, {cores or '?'} cores"
