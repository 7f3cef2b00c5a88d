"""The last release: what its code has rendered, as `tests/golden/released.jsonl` records it, and that code itself."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.kept import ROOT, kept

RECORD = ROOT / "tests" / "golden" / "released.jsonl"

Manifest = dict[str, Any]


class HistoryMissing(Exception):
    """The clone does not have the code of the last release; the message says how to get it."""


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
    """A release: its version, its runtimes, and what it has rendered. ``operator`` is the id of that folder in git."""

    version: str
    operator: str
    runtimes: list[Manifest]
    cases: list[ReleasedCase]


@cache
def last_release() -> Release:
    head, *lines = RECORD.read_text().splitlines()
    return Release(**json.loads(head), cases=[ReleasedCase(**json.loads(line)) for line in lines])


def write(release: Release) -> None:
    """Write the record: a line for the release, and one for each case."""
    head = {"version": release.version, "operator": release.operator, "runtimes": release.runtimes}
    lines = [head, *(vars(case) for case in release.cases)]
    RECORD.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


def code_of_last_release() -> Path:
    """The folder of the last release's operator, for PYTHONPATH; raises HistoryMissing."""
    tree = last_release().operator
    return kept("last-release", lambda folder: _extract(tree, folder), tree) / "src"


def _extract(tree: str, folder: Path) -> None:
    done = subprocess.run(["git", "archive", tree], cwd=ROOT, capture_output=True, check=False)
    if done.returncode != 0:
        raise HistoryMissing(
            f"the operator of version {last_release().version} is not in this clone (tree {tree}: "
            f"{done.stderr.decode().strip()}); run `git fetch --unshallow`, or clone without --depth"
        )
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
