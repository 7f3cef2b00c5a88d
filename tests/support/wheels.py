"""Packages for archives to ask for."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile


def make_wheel(folder: Path, module: str, word: str) -> Path:
    """A package of one module, of the same name, with `WORD` in it."""
    path = folder / f"{module}-1-py3-none-any.whl"
    with ZipFile(path, "w") as wheel:
        wheel.writestr(f"{module}.py", f"WORD = {word!r}\n")
        wheel.writestr(f"{module}-1.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {module}\nVersion: 1\n")
        wheel.writestr(f"{module}-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{module}-1.dist-info/RECORD", "")
    return path
