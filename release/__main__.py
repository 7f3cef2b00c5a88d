"""`make release`: build the commit that is checked out twice, and put it into dist/ if both builds are the same."""

from __future__ import annotations

import filecmp
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from release.build import BuildFailed, build
from release.version import ROOT


class Refused(Exception):
    """There is no release of this tree; the message says why."""


def main(root: Path, environment: Mapping[str, str]) -> int:
    try:
        require_clean_tree(root)
        released = datetime.fromtimestamp(int(git(root, "log", "-1", "--format=%ct")), UTC)
        with tempfile.TemporaryDirectory() as folder:
            builds = Path(folder, "first"), Path(folder, "second")
            for dist in builds:
                source = dist.with_name(f"{dist.name}-source")
                dist.mkdir()
                export(root, source)
                build(source, dist, released, environment)
            require_equal(*builds)
            shutil.rmtree(root / "dist", ignore_errors=True)
            shutil.copytree(builds[0], root / "dist")
    except (Refused, BuildFailed) as error:
        sys.stderr.write(f"release: {error}\n")
        return 1
    sys.stdout.write((root / "dist" / "SHA256SUMS").read_text())
    return 0


def require_clean_tree(root: Path) -> None:
    if changed := git(root, "status", "--porcelain"):
        raise Refused(f"commit or remove these first; a release is what its commit holds:\n{changed}")


def require_equal(first: Path, second: Path) -> None:
    """Compare two folders of files, byte for byte."""
    names = sorted({path.name for folder in (first, second) for path in folder.iterdir()})
    _, differing, missing = filecmp.cmpfiles(first, second, names, shallow=False)
    if differing or missing:
        raise Refused(f"two builds of one commit differ in {', '.join(sorted(differing + missing))}")


def export(root: Path, target: Path) -> None:
    with tempfile.TemporaryFile() as archive:
        subprocess.run(["git", "archive", "--format=tar", "HEAD"], cwd=root, stdout=archive, check=True)
        archive.seek(0)
        with tarfile.open(fileobj=archive) as opened:
            opened.extractall(target, filter="data")


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(ROOT, os.environ))
