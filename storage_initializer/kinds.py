"""The type of a file by its content, for a name without a type: a download may be named ``download``, or ``42``."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from pathlib import Path, PurePosixPath

from model_archive.compression import DamagedError, compression_of, open_decompressed
from model_archive.contents import Contents, exact
from model_archive.manifest import MANIFEST
from model_archive.zips import open_zip

# The ends of names of archives that are unpacked: those that KServe unpacks.
UNPACKED = (".zip", ".tar", ".tar.gz", ".tgz", ".taz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
# torch puts everything below one folder, named after the file that was saved.
_SAVED = {"data.pkl", "version"}
_EXPORTED = "archive_format"


def suffix_of(path: Path) -> str:
    """Return the suffix for a file's type; empty for what is neither an archive nor a torch model."""
    if is_zip(path):
        return _suffix_of_zip(path)
    return ".tar" if _is_tar(_start_of_content(path)) else ""


def is_zip(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(len(_ZIP[0])) in _ZIP


def _suffix_of_zip(path: Path) -> str:
    contents = Contents(path.name, size=path.stat().st_size, cure="pack it again", spelling=exact)
    with open_zip(path, contents) as archive:
        if PurePosixPath(MANIFEST) in archive.files:
            return ".mar"
        inside = {str(file).partition("/")[2] for file in archive.files}
        if inside >= _SAVED:
            return ".pt"
        return ".pt2" if _EXPORTED in inside else ".zip"


def _start_of_content(path: Path) -> bytes:
    """Return the first block, decompressed; empty where that fails."""
    try:
        with open_decompressed(path, compression_of(path)) as stream:
            return stream.read(tarfile.BLOCKSIZE)
    except (DamagedError, gzip.BadGzipFile, EOFError, zlib.error):
        return b""


def _is_tar(start: bytes) -> bool:
    """By the checksum of its first header."""
    try:
        tarfile.TarInfo.frombuf(start, tarfile.ENCODING, "surrogateescape")
    except tarfile.TarError:
        return False
    return True
