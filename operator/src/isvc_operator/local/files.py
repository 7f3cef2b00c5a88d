"""Reads the YAML files of a command, and the shipped runtimes."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from isvc_operator.local.documents import Text
from isvc_operator.local.errors import UnusableInput

_CHECKOUT = Path(__file__).parents[4]


def read_files(paths: Iterable[Path]) -> list[Text]:
    """Read the files; raises UnusableInput for one that cannot be read."""
    return [Text(str(path), read_bytes(path).decode("utf-8", errors="replace")) for path in paths]


def read_bytes(path: Path) -> bytes:
    """Read one file; raises UnusableInput if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UnusableInput(f"{path} cannot be read: {error.strerror}") from error


def read_runtimes(folder: Path | None) -> list[Text]:
    """Read the runtimes in ``folder``, or the shipped ones without it."""
    if folder is not None and not folder.is_dir():
        raise UnusableInput(f"{folder} is not a folder; --runtimes requires one with runtimes as YAML files")
    with resources.as_file(resources.files("isvc_operator") / "runtimes") as packaged:
        shipped = packaged if packaged.is_dir() else _CHECKOUT / "manifests" / "runtimes"
        return read_files(sorted((folder or shipped).glob("*.yaml")))
