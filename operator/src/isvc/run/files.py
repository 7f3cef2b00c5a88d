"""Reads the YAML files of a command, and the shipped runtimes."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from isvc.limits import FILE_BYTES
from isvc.run.documents import YamlText
from isvc.run.errors import UnusableInput
from isvc_operator.ignored.walker import suggestion

_CHECKOUT = Path(__file__).parents[4]
_STANDARD_INPUT = Path("-")
_URI = re.compile(r"\w{2,}:/")  # as a path, which has lost a slash
_NAMES, _NEAR = 1000, 0.8  # of files beside one that is missing, and the ratio of difflib
_SUFFIXES = (".yaml", ".yml", ".json")
_OF_AN_OBJECT = re.compile(r"""^[\s{-]*["']?(apiVersion|kind|metadata|spec)\b""", re.IGNORECASE | re.MULTILINE)


def read_files(paths: Iterable[Path]) -> list[YamlText]:
    """Read the files, those in folders, and the standard input for ``-``; raises UnusableInput.

    Hidden files, and YAML and JSON of something else, such as a sample request, are left out where a folder has them.
    """
    return [text for path in paths for text in map(_text, _files(path)) if not (path.is_dir() and _is_data(text))]


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(
        file
        for file in path.rglob("*")
        if file.suffix in _SUFFIXES
        and not any(part.startswith(".") for part in file.relative_to(path).parts)
        and file.is_file()
    )
    if not found:
        raise UnusableInput(f"folder {path} has no file that ends with {', '.join(_SUFFIXES)}")
    return found


def _is_data(text: YamlText) -> bool:
    """Whether a file is neither an object of Kubernetes nor meant as one."""
    if not text.source.endswith(".json"):
        return not _OF_AN_OBJECT.search(text.content)
    try:
        document = json.loads(text.content)
    except (ValueError, RecursionError):
        return False
    return not isinstance(document, dict) or not {"apiVersion", "kind"} & document.keys()


def _text(path: Path) -> YamlText:
    if path == _STANDARD_INPUT:
        content = bounded(sys.stdin.buffer, "standard input", FILE_BYTES)
        return _decoded("standard input", content)
    return _decoded(str(path), read_bytes(path))


def _decoded(source: str, content: bytes) -> YamlText:
    try:
        return YamlText(source, content.decode())
    except UnicodeDecodeError as error:
        if b"\0" in content:  # a binary file, of which the parser says more
            return YamlText(source, content.decode(errors="replace"))
        line = content.count(b"\n", 0, error.start) + 1
        raise UnusableInput(f"{source}: line {line} is not UTF-8; save the file as UTF-8") from None


def read_bytes(path: Path, limit: int = FILE_BYTES) -> bytes:
    """Read one file; raises UnusableInput if it cannot be read, or has more than ``limit`` bytes."""
    try:
        with path.open("rb") as file:
            return bounded(file, str(path), limit)
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> UnusableInput:
    """Return that a file cannot be read, and what is meant instead: a file beside it, or a URI."""
    hint = ""
    if _URI.match(str(path)):
        hint = "; to serve what a URI names, write it as the storageUri of an InferenceService, and name that file"
    elif isinstance(error, FileNotFoundError):
        with suppress(OSError):  # its folder may be missing as well
            hint = suggestion(path.name, {it.name for it in islice(path.parent.iterdir(), _NAMES)}, least=_NEAR)
    return UnusableInput(f"{path} cannot be read: {error.strerror}{hint}")


def bounded(file: BinaryIO, name: str, limit: int) -> bytes:
    """Read an open file, which may have no end."""
    content = file.read(limit + 1)
    if len(content) > limit:
        raise UnusableInput(f"{name} has more than {limit} bytes; use a smaller one")
    return content


def read_runtimes(folder: Path | None) -> list[YamlText]:
    """Read the runtimes in ``folder``, or the shipped ones without it."""
    if folder is not None and not folder.is_dir():
        raise UnusableInput(f"{folder} is not a folder; --runtimes requires one with runtimes as YAML files")
    with resources.as_file(resources.files("isvc") / "runtimes") as packaged:
        shipped = packaged if packaged.is_dir() else _CHECKOUT / "manifests" / "runtimes"
        found = sorted(file for file in (folder or shipped).iterdir() if file.suffix in _SUFFIXES)
        if not found:
            raise UnusableInput(f"folder {folder} has no file that ends with {', '.join(_SUFFIXES)}")
        return read_files(found)
