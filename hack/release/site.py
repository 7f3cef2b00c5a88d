"""`python -m hack.release.site ARCHIVE FOLDER`: put the site of a release beside those of other versions.

The folder has one folder for each version, `versions.json` for the list in the side bar, and `index.html`, which leads
to the newest version.
"""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
from pathlib import Path
from typing import Final

from packaging.version import Version

from hack.release.version import current_version

_INDEX: Final = """<!doctype html>
<title>isvc-operator</title>
<meta http-equiv="refresh" content="0; url={version}/README.html">
"""


def add(archive: Path, version: str, folder: Path) -> None:
    """Unpack the site of a version, in place of one that is there, and name it in the list."""
    shutil.rmtree(folder / version, ignore_errors=True)
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    (folder / "docs").rename(folder / version)
    versions = sorted((path.parent.name for path in folder.glob("*/README.html")), key=Version, reverse=True)
    released = [name for name in versions if not Version(name).is_prerelease]
    (folder / "versions.json").write_text(json.dumps(versions))
    (folder / "index.html").write_text(_INDEX.format(version=(released or versions)[0]))
    (folder / ".nojekyll").touch()  # GitHub's pages leave out _static otherwise


if __name__ == "__main__":
    add(Path(sys.argv[1]), current_version(), Path(sys.argv[2]))
