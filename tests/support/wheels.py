"""Packages for archives to ask for."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile


def make_wheel(folder: Path, module: str, word: str, *requires: str) -> Path:
    """A package of one module, of the same name, with `WORD` in it."""
    path = folder / f"{module}-1-py3-none-any.whl"
    metadata = f"Metadata-Version: 2.1\nName: {module}\nVersion: 1\n"
    metadata += "".join(f"Requires-Dist: {each}\n" for each in requires)
    with ZipFile(path, "w") as wheel:
        wheel.writestr(f"{module}.py", f"WORD = {word!r}\n")
        wheel.writestr(f"{module}-1.dist-info/METADATA", metadata)
        wheel.writestr(f"{module}-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{module}-1.dist-info/RECORD", "")
    return path


_BACKEND = """import pathlib, zipfile
def build_wheel(folder, *_):
    with zipfile.ZipFile(pathlib.Path(folder, "mine-1-py3-none-any.whl"), "w") as wheel:
        wheel.write("mine.py")
        wheel.writestr("mine-1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: mine\\nVersion: 1\\n")
        wheel.writestr("mine-1.dist-info/WHEEL",
            "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("mine-1.dist-info/RECORD", "")
    return "mine-1-py3-none-any.whl"
build_editable = build_wheel
"""
_PROJECT = """[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "mine"
version = "1"
"""


def make_project(folder: Path, word: str) -> None:
    """The source of a package `mine`, which builds itself."""
    folder.mkdir(parents=True)
    for name, text in (("pyproject.toml", _PROJECT), ("backend.py", _BACKEND), ("mine.py", f"WORD = {word!r}\n")):
        (folder / name).write_text(text)
