"""Packages for archives to ask for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def make_wheel(folder: Path, module: str, word: str) -> Path:
    """A package of one module, of the same name, with `WORD` in it."""
    source = folder / module
    source.mkdir()
    (source / "setup.py").write_text(f"from setuptools import setup\nsetup(name={module!r}, py_modules=[{module!r}])\n")
    (source / f"{module}.py").write_text(f"WORD = {word!r}\n")
    command = ["-m", "pip", "wheel", "--quiet", "--no-index", "--no-build-isolation", "--wheel-dir", folder, source]
    subprocess.run([sys.executable, *map(str, command)], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel
