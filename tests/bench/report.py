"""What every suite reports: rows with a target each, printed as a table and kept as JSON to be followed over time."""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

RESULTS = Path(__file__).parents[2] / "docs" / "benchmarks"
_PACKAGES = ("isvc-operator", "kopf", "kubernetes", "torch", "torchserve", "uvicorn", "aiohttp")


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
class Report:
    """The rows of one suite, with the versions that they were measured with."""

    suite: str
    date: str
    rows: Sequence[Row]
    versions: Mapping[str, str]

    def write(self, folder: Path = RESULTS) -> Path:
        """Write ``<suite>.json``; returns its path."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.suite}.json"
        rows = [{**asdict(row), "ratio": row.ratio} for row in self.rows]
        data = {"suite": self.suite, "date": self.date, "versions": dict(self.versions), "rows": rows}
        path.write_text(json.dumps(data, indent=2) + "\n")
        return path

    def table(self) -> str:
        """The rows as a Markdown table."""
        lines = ["| what | ours | peer | ratio | target | holds |", "|---|---|---|---|---|---|"]
        for row in self.rows:
            theirs = f"{row.theirs:g} {row.unit} ({row.peer})" if row.theirs is not None else row.peer or "–"
            ratio = f"{row.ratio:g}" if row.ratio is not None else "–"
            holds = "yes" if row.holds else "**no**"
            lines.append(f"| {row.what} | {row.ours:g} {row.unit} | {theirs} | {ratio} | {row.target} | {holds} |")
        return "\n".join(lines)


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
