"""The packages that bring the models, installed once for their versions and kept outside the checkout."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

REQUIREMENTS = Path(__file__).with_name("requirements.txt")


@dataclass(frozen=True)
class Packages:
    """Where they are. What they need beyond the requirements is the project's own, or not used."""

    folder: Path

    @property
    def site(self) -> Path:
        """A folder of Python's path."""
        return self.folder / "site"

    @property
    def locales(self) -> Path:
        """The value of LOCPATH where the machine has no en_US.UTF-8; the images have it."""
        return self.folder / "locales"


def installed() -> Packages:
    """The packages, installed if they are not."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "isvc-operator"
    cache.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(f"{platform.python_version()} {REQUIREMENTS.read_text()}".encode()).hexdigest()[:12]
    found = Packages(cache / f"models-{digest}")
    with (cache / "models.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other workers of the run want them as well
        if not found.folder.exists():
            making = Packages(found.folder.with_suffix(".making"))
            shutil.rmtree(making.folder, ignore_errors=True)
            _install(making)
            making.folder.rename(found.folder)  # a folder of this name is always whole
    return found


def _install(packages: Packages) -> None:
    packages.locales.mkdir(parents=True)
    uv = Path(sys.executable).with_name("uv")
    for command in (
        (uv, "pip", "install", "--quiet", "--no-deps", "--target", packages.site, "--requirement", REQUIREMENTS),
        ("localedef", "--no-archive", "--inputfile=en_US", "--charmap=UTF-8", packages.locales / "en_US.UTF-8"),
    ):
        subprocess.run(command, check=True)
