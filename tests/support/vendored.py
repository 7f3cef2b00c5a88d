"""The files of npm packages that the dashboard serves, as their packages have them.

`python -m tests.support.vendored` downloads the packages that `packages.json` pins, checks their digests, and writes
the files and `digests.json`. For another version, the integrity is what `npm view PACKAGE@VERSION dist.integrity` says.
"""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

VENDOR = Path(__file__).parents[2] / "operator/src/isvc/dashboard/assets/vendor"
DIGESTS = VENDOR / "digests.json"


def packages() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((VENDOR / "packages.json").read_text())
    return found


def digests() -> dict[str, str]:
    """The digest of each file by its path; `packages.json` itself is one, so that a pin changes with its files."""
    names = ["packages.json", *(f"{folder}/{name}" for folder, item in packages().items() for name in item["files"])]
    return {name: hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() for name in names}


def fetch() -> None:
    for folder, item in packages().items():
        with tempfile.TemporaryDirectory() as place:
            subprocess.run(
                ["npm", "pack", "--silent", f"{item['package']}@{item['version']}"],
                cwd=place,
                check=True,
                stdout=sys.stderr,
            )
            (archive,) = Path(place).iterdir()
            integrity = "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
            if integrity != item["integrity"]:
                raise SystemExit(f"{item['package']} {item['version']} is {integrity}, and not as packages.json has it")
            with tarfile.open(archive) as opened:
                for name, member in item["files"].items():
                    (VENDOR / folder).mkdir(exist_ok=True)
                    content = opened.extractfile(member)
                    assert content is not None
                    (VENDOR / folder / name).write_bytes(content.read())
    DIGESTS.write_text(json.dumps(digests(), indent=2) + "\n")


if __name__ == "__main__":
    fetch()
