"""What the image has, told to uv: wheels that have the metadata of its packages and nothing else."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile


@dataclass(frozen=True)
class Image:
    """The packages of the image with their versions, and the arguments by which uv learns of them."""

    versions: Mapping[str, str]
    arguments: Sequence[str]

    @property
    def lock(self) -> str:
        """Return the lock file that lists them: uv keeps its versions where the requirements allow it."""
        return "".join(f"{name}=={version}\n" for name, version in self.versions.items())

    def lacks(self, chosen: str) -> list[str]:
        """Return the lines of a lock file whose packages the image does not have."""
        own = {f"{name}=={version}" for name, version in self.versions.items()}
        return [line for line in chosen.splitlines() if line and not line.startswith("#") and line not in own]

    def satisfies(self, lacking: Sequence[str]) -> list[str]:
        """Return the names of its packages, but for those of `lacking`, of which there is another version."""
        return sorted(self.versions.keys() - {re.split(r"[^\w-]", line)[0] for line in lacking})


def describe_image(folder: Path, fixed: Collection[str]) -> Image:
    """Write the wheels, and the constraints of the packages that have no other version (`fixed`)."""
    folder.mkdir(parents=True, exist_ok=True)
    versions: dict[str, str] = {}
    for found in importlib.metadata.distributions():
        name = re.sub(r"[-_.]+", "-", found.name).lower()
        if name in versions:  # the first one on the path is imported
            continue
        versions[name] = found.version
        stem = f"{name.replace('-', '_')}-{found.version}"
        with ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{stem}.dist-info/METADATA", found.read_text("METADATA") or "")
            wheel.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{stem}.dist-info/RECORD", "")
    constraints = folder / "constraints.txt"
    constraints.write_text("".join(f"{name}=={versions[name]}\n" for name in fixed if name in versions))
    return Image(versions, ("--find-links", str(folder), "--constraint", str(constraints)))
