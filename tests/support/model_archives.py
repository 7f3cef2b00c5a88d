"""Model archives of every kind, and whether they can be served: one list for who copies archives and for who serves
them."""

from __future__ import annotations

import os
import stat
import tarfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZipFile, ZipInfo

from tests.support.model_folder import manifest, write_mar, write_tar

LIMITS = {"MAX_ENTRIES": 20, "HARMLESS_SIZE": 1 << 20}
"""Names of constants in ``model_archive.contents``, with values that small archives exceed."""


@dataclass(frozen=True)
class ModelArchive:
    title: str
    file: str
    write: Callable[[Path], Any]
    is_served: bool


def _zip(*entries: tuple[str | ZipInfo, bytes], with_manifest: bool = True) -> Callable[[Path], Any]:
    def write(path: Path) -> None:
        with ZipFile(path, "w", ZIP_DEFLATED) as archive, warnings.catch_warnings(action="ignore"):
            if with_manifest:
                write_mar(path.with_suffix(".draft"))
                with ZipFile(path.with_suffix(".draft")) as draft:
                    archive.writestr("MAR-INF/MANIFEST.json", draft.read("MAR-INF/MANIFEST.json"))
                path.with_suffix(".draft").unlink()
            for entry, content in entries:
                archive.writestr(entry, content)

    return write


def _with_manifest(content: dict[str, Any] | bytes) -> Callable[[Path], Any]:
    return lambda path: write_mar(path, content)


def _tar(*members: tarfile.TarInfo, top: str = "bert") -> Callable[[Path], Any]:
    return lambda path: write_tar(path, *members, top=top)


def _folder(at: str = "") -> Callable[[Path], Any]:
    def write(path: Path) -> None:
        write_mar(path.with_suffix(".draft"))
        with ZipFile(path.with_suffix(".draft")) as archive:
            archive.extractall(path / at)
        path.with_suffix(".draft").unlink()

    return write


def _edited(write: Callable[[Path], Any], edit: Callable[[bytes], bytes]) -> Callable[[Path], Any]:
    def write_edited(path: Path) -> None:
        write(path)
        path.write_bytes(edit(path.read_bytes()))

    return write_edited


def _member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def _link() -> ZipInfo:
    info = ZipInfo("weights.pt")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


def _bzipped() -> ZipInfo:
    info = ZipInfo("weights.pt")
    info.compress_type = ZIP_BZIP2
    return info


def _text(size: int) -> tuple[str, bytes]:
    """Content that compresses to something above 12 KiB, whatever its size."""
    return "vocabulary.txt", os.urandom(12 << 10) + bytes(size)


_SERVED = (
    ("a .mar", "a.mar", _zip(("handler.py", b""))),
    ("a .tar.gz", "a.tar.gz", _tar()),
    ("a .tar.gz of the folder itself", "a.tar.gz", _tar(_member(".", tarfile.DIRTYPE), top=".")),
    ("a .tar.gz made on macOS", "a.tar.gz", _tar(_member("._bert"), _member("bert/._handler.py"))),
    ("a .model", "a.model", _tar()),
    ("a folder", "a", _folder()),
    ("a folder with a lone folder", "a", _folder("inner")),
    ("a name with a colon", "a.mar", _zip(("weights:v1.bin", b""))),
    ("names that differ in case", "a.mar", _zip(("Model.py", b""), ("model.py", b""))),
    ("something before it", "a.mar", _edited(_zip(), lambda content: bytes(99) + content)),
    ("as many entries as allowed", "a.mar", _zip(*((f"{number}.py", b"") for number in range(18)))),
    ("text that compresses well", "a.mar", _zip(_text(2 << 20))),
    ("a version without quotation marks", "a.mar", _with_manifest(manifest(modelVersion=1.5))),
    ("a manifest without a version", "a.mar", _with_manifest(manifest(modelVersion=None))),
    ("a manifest without a runtime", "a.mar", _with_manifest({"model": manifest()["model"]})),
)
_REFUSED = (
    ("an empty file", "a.mar", _edited(_zip(), lambda _: b"")),
    ("a truncated .mar", "a.mar", _edited(_zip(("w", b"w" * 100)), lambda content: content[:-40])),
    ("a truncated .tar.gz", "a.tar.gz", _edited(_tar(), lambda content: content[:-40])),
    ("no manifest", "a.mar", _zip(("handler.py", b""), with_manifest=False)),
    ("a manifest too deep", "a.tar.gz", _tar(top="bert/deep")),
    ("a manifest that is not JSON", "a.mar", _with_manifest(b"{")),
    ("a manifest without a handler", "a.mar", _with_manifest(manifest(handler=None))),
    ("another runtime", "a.mar", _with_manifest({**manifest(), "runtime": "python2"})),
    ("a requirements file that is no name", "a.mar", _with_manifest(manifest(requirementsFile=[]))),
    ("a path out of it", "a.mar", _zip(("../evil.py", b""))),
    ("an absolute path", "a.tar.gz", _tar(_member("/evil.py"))),
    ("a drive", "a.mar", _zip(("C:/evil.py", b""))),
    ("a link", "a.mar", _zip((_link(), b"/etc/passwd"))),
    ("a link in a .tar.gz", "a.tar.gz", _tar(_member("bert/w", tarfile.SYMTYPE, "handler.py"))),
    ("a name twice", "a.mar", _zip(("handler.py", b"1"), ("handler.py", b"2"))),
    ("a name twice below two top folders", "a.tar.gz", _tar(_member("a/w"), _member("b/w"))),
    ("a file as a folder", "a.mar", _zip(("a", b""), ("a/b", b""))),
    ("an invisible character", "a.mar", _zip(("a\nb", b""))),
    ("bzip2", "a.mar", _zip((_bzipped(), b""))),
    ("an entry too many", "a.mar", _zip(*((f"{number}.py", b"") for number in range(21)))),
    ("a bomb", "a.mar", _zip(_text(8 << 20))),
)
ARCHIVES = tuple(ModelArchive(*case, is_served=is_served) for is_served, cases in ((True, _SERVED), (False, _REFUSED))
                 for case in cases)  # fmt: skip
