"""The last release: what its code has rendered, as `tests/golden/released.jsonl` records it, and that code itself.

The code is kept beside the record, because a clone may have no history.
"""

from __future__ import annotations

import json
import tarfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.build_cache import ROOT, kept

RECORD = ROOT / "tests" / "golden" / "released.jsonl"

OPERATOR = RECORD.with_name("released-operator.tar.xz")

Manifest = dict[str, Any]


@dataclass(frozen=True)
class ReleasedCase:
    """A case of `tests/golden/cases`: the documents, and the children that the release has rendered of them.

    ``inputs`` are the digests of what the pods of each component are rendered from. Version 0.1.0 did not make any;
    those of its cases are of the version after it.
    """

    name: str
    documents: list[Manifest]
    children: list[Manifest]
    inputs: dict[str, str]


@dataclass(frozen=True)
class Release:
    """A release: its version, its runtimes, and what it has rendered."""

    version: str
    runtimes: list[Manifest]
    cases: list[ReleasedCase]


@cache
def last_release() -> Release:
    head, *lines = RECORD.read_text().splitlines()
    return Release(**json.loads(head), cases=[ReleasedCase(**json.loads(line)) for line in lines])


def write(release: Release) -> None:
    """Write the record: a line for the release, and one for each case."""
    head = {"version": release.version, "runtimes": release.runtimes}
    lines = [head, *(vars(case) for case in release.cases)]
    RECORD.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


def code_of_last_release() -> Path:
    """The folder of the last release's operator, for PYTHONPATH."""
    return kept("last-release", _extract, OPERATOR) / "src"


def _extract(folder: Path) -> None:
    with tarfile.open(OPERATOR) as archive:
        archive.extractall(folder, filter="data")
