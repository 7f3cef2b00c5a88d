"""The one version of the three distributions, the images and the manifests.

`pyproject.toml` in the root names it. The other places repeat it, because a file of their kind cannot look it up:
`python -m hack.release.version` compares them, `python -m hack.release.version 0.2.0` writes another version into all
of them.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]

_VERSION: Final = r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?"
# Which files, as `git ls-files` selects them, and what stands before and after the version there. Goldens are
# written by the suite, which compares them itself.
_PLACES: Final = (
    ("*pyproject.toml", r'^version = "', '"$'),
    ("*pyproject.toml", r'"isvc-[a-z-]+(?:\[[a-z,]+\])?==', '"'),
    ("manifests/charts/*/Chart.yaml", r"^(?:version|appVersion): ", "$"),
    ("*/__init__.py", r'^__version__ = "', '"$'),
    (":!tests/golden", r"localhost/isvc-operator/[A-Za-z0-9{}-]+:", r"\b"),
    ("*.md", r"\bisvc-operator(?:-crds)?-", r"\.tgz"),
    ("*.md", r"\bTAG=", r"\b"),
)


@dataclass(frozen=True)
class Mention:
    """A version that a file names."""

    path: str
    line: int
    version: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.version}"


def current_version(root: Path = ROOT) -> str:
    version: str = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    return version


def mentions(root: Path = ROOT) -> Iterator[Mention]:
    """Find every place that names the version, whichever version it names."""
    for path, pattern, text in _searched_files(root):
        for match in pattern.finditer(text):
            yield Mention(path, text.count("\n", 0, match.start()) + 1, match["version"])


def write_version(version: str, root: Path = ROOT) -> None:
    for path, pattern, text in _searched_files(root):
        changed = pattern.sub(lambda match: match["before"] + version, text)
        if changed != text:
            (root / path).write_text(changed)


def _searched_files(root: Path) -> Iterator[tuple[str, re.Pattern[str], str]]:
    """Yield the path, the pattern to look for and the text; a file with two patterns comes twice."""
    for files, before, after in _PLACES:
        pattern = re.compile(f"(?P<before>{before})(?P<version>{_VERSION})(?={after})", re.MULTILINE)
        listed = subprocess.run(["git", "ls-files", "-z", files], cwd=root, capture_output=True, text=True, check=True)
        for path in filter(None, listed.stdout.split("\0")):
            try:
                yield path, pattern, (root / path).read_text()
            except (UnicodeDecodeError, IsADirectoryError):
                continue  # a picture, an archive, a link to a folder


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m hack.release.version", description=__doc__)
    parser.add_argument("version", nargs="?", help="the version to write; without it the places are compared")
    wanted = parser.parse_args(argv).version
    if wanted and not re.fullmatch(_VERSION, wanted):
        parser.error(f"{wanted} is not a version; write it as 1.2.3 or 1.2.3rc1")
    if wanted:
        write_version(wanted)
    version = current_version()
    differing = [mention for mention in mentions() if mention.version != version]
    for mention in differing:
        sys.stdout.write(f"{mention}; pyproject.toml says {version}\n")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
