"""What takes long to make and is the same each time is made once for its sources, and kept in `build/tests`."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build/tests"
_FINISHED = ".finished"


def kept(name: str, make: Callable[[Path], object], *sources: Path | str) -> Path:
    """The folder that `make` has filled, to be read only. Its key is made of the sources and of the pinned packages.

    What was made for other sources under the same name is removed, so no two of one run may share a name.
    """
    folder = FOLDER / name / _key(sources)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (FOLDER / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other workers of the run want it as well
        if not (folder / _FINISHED).exists():
            shutil.rmtree(folder.parent)
            folder.mkdir(parents=True)
            make(folder)
            (folder / _FINISHED).touch()
    return folder


def sample(name: str, *options: str) -> Path:
    """The volume of a sample of `examples/`, built by the command that its README gives."""
    source = ROOT / "examples" / name
    sources = [path for path in sorted(source.iterdir()) if path.is_file() and path.suffix != ".md"]

    def build(folder: Path) -> None:
        command = [sys.executable, "-W", "ignore", source / "build.py", folder / "volume", *options]
        subprocess.run(command, check=True, capture_output=True)

    return kept(quote(" ".join((name, *options)), safe=""), build, *sources) / "volume"


def _key(sources: tuple[Path | str, ...]) -> str:
    digest = hashlib.sha256(f"{sys.version} {ROOT}".encode())  # archives name packages by their paths
    for source in (ROOT / "constraints.txt", *sources):
        content = source.encode() if isinstance(source, str) else source.read_bytes()
        digest.update(b"%d:%b" % (len(content), content))
    return digest.hexdigest()[:16]
