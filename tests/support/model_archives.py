"""Model archives of every kind, and whether they can be served: one list for who copies archives and for who serves
them."""

from __future__ import annotations

import json
import os
import stat
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipInfo

from tests.support.hostile_archives import (
    bzipped_entry,
    cut,
    edited,
    keep,
    member,
    put_something_before,
    special_zip_entry,
    zip_of,
)
from tests.support.model_folder import manifest, write_files, write_mar, write_tar


@dataclass(frozen=True)
class ModelArchive:
    title: str
    file: str
    write: Callable[[Path], Any]
    is_served: bool


def _zip(*entries: tuple[str | ZipInfo, bytes]) -> Callable[[Path], Any]:
    """A .mar of a manifest and these entries."""
    return zip_of(("MAR-INF/MANIFEST.json", json.dumps(manifest()).encode()), *entries)


def _with_manifest(content: dict[str, Any] | bytes) -> Callable[[Path], Any]:
    return lambda path: write_mar(path, content)


def _tar(*members: tarfile.TarInfo, top: str = "bert") -> Callable[[Path], Any]:
    return lambda path: write_tar(path, *members, top=top)


def _folder(at: str = "") -> Callable[[Path], Any]:
    def write(path: Path) -> None:
        write_files(path / at, {"MAR-INF/MANIFEST.json": json.dumps(manifest()).encode(), "handler.py": b""})

    return write


def _text(size: int) -> tuple[str, bytes]:
    """Content that compresses to something above 12 KiB, whatever its size."""
    return "vocabulary.txt", os.urandom(12 << 10) + bytes(size)


_SERVED = (
    ("a .mar", "a.mar", _zip(("handler.py", b""))),
    ("a .tar.gz", "a.tar.gz", _tar()),
    ("a .tar.gz of the folder itself", "a.tar.gz", _tar(member(".", tarfile.DIRTYPE), top=".")),
    ("a .tar.gz made on macOS", "a.tar.gz", _tar(member("._bert"), member("bert/._handler.py"))),
    ("a .model", "a.model", _tar()),
    ("a folder", "a", _folder()),
    ("a folder with a lone folder", "a", _folder("inner")),
    ("a name with a colon", "a.mar", _zip(("weights:v1.bin", b""))),
    ("names that differ in case", "a.mar", _zip(("Model.py", b""), ("model.py", b""))),
    ("something before it", "a.mar", edited(_zip(), put_something_before)),
    ("as many entries as allowed", "a.mar", _zip(*((f"{number}.py", b"") for number in range(18)))),
    ("text that compresses well", "a.mar", _zip(_text(2 << 20))),
    ("a version without quotation marks", "a.mar", _with_manifest(manifest(modelVersion=1.5))),
    ("a manifest without a version", "a.mar", _with_manifest(manifest(modelVersion=None))),
    ("a manifest without a runtime", "a.mar", _with_manifest({"model": manifest()["model"]})),
)
_REFUSED = (
    ("an empty file", "a.mar", edited(_zip(), keep(0))),
    ("a truncated .mar", "a.mar", edited(_zip(("w", b"w" * 100)), cut(40))),
    ("a truncated .tar.gz", "a.tar.gz", edited(_tar(), cut(40))),
    ("no manifest", "a.mar", zip_of(("handler.py", b""))),
    ("a manifest too deep", "a.tar.gz", _tar(top="bert/deep")),
    ("a manifest that is not JSON", "a.mar", _with_manifest(b"{")),
    ("a manifest without a handler", "a.mar", _with_manifest(manifest(handler=None))),
    ("another runtime", "a.mar", _with_manifest({**manifest(), "runtime": "python2"})),
    ("a requirements file that is not a name", "a.mar", _with_manifest(manifest(requirementsFile=[]))),
    ("a path out of it", "a.mar", _zip(("../evil.py", b""))),
    ("an absolute path", "a.tar.gz", _tar(member("/evil.py"))),
    ("a drive", "a.mar", _zip(("C:/evil.py", b""))),
    ("a link", "a.mar", _zip((special_zip_entry(stat.S_IFLNK), b"/etc/passwd"))),
    ("a link in a .tar.gz", "a.tar.gz", _tar(member("bert/w", tarfile.SYMTYPE, "handler.py"))),
    ("a name twice", "a.mar", _zip(("handler.py", b"1"), ("handler.py", b"2"))),
    ("a name twice below two top folders", "a.tar.gz", _tar(member("a/w"), member("b/w"))),
    ("a file as a folder", "a.mar", _zip(("a", b""), ("a/b", b""))),
    ("an invisible character", "a.mar", _zip(("a\nb", b""))),
    ("bzip2", "a.mar", _zip((bzipped_entry(), b""))),
    ("an entry too many", "a.mar", _zip(*((f"{number}.py", b"") for number in range(21)))),
    ("a bomb", "a.mar", _zip(_text(8 << 20))),
)
ARCHIVES = tuple(ModelArchive(*case, is_served=is_served) for is_served, cases in ((True, _SERVED), (False, _REFUSED))
                 for case in cases)  # fmt: skip
