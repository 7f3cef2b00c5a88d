"""`make release`: build the commit that is checked out twice, and put it into dist/ if both builds are the same."""

from __future__ import annotations

import argparse
import filecmp
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from hack.release.build import BuildFailed, build, build_images
from hack.release.version import ROOT


class Refused(Exception):
    """This tree cannot be released; the message says why."""


def main(root: Path, environment: Mapping[str, str], argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m hack.release", description="Build the release of this commit into dist/."
    )
    parser.add_argument("--images", action="store_true", help="add the images as OCI archives (buildah or podman)")
    with_images = parser.parse_args(argv).images
    try:
        require_clean_tree(root)
        released = datetime.fromtimestamp(int(git(root, "log", "-1", "--format=%ct")), UTC)
        (root / "build").mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=root / "build") as folder:
            builds = Path(folder, "first"), Path(folder, "second")
            for dist in builds:
                source = dist.with_name(f"{dist.name}-source")
                dist.mkdir()
                export(root, source)
                build(source, dist, released, environment)
            require_equal(*builds)
            if with_images:
                build_images(source, builds[0], released, environment)
            shutil.rmtree(root / "dist", ignore_errors=True)
            shutil.move(builds[0], root / "dist")
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
    sys.exit(main(ROOT, os.environ, sys.argv[1:]))
