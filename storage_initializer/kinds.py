"""The type of a file by its content, for a name without a type: a download may be named ``download``, or ``42``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from model_archive.contents import Contents
from model_archive.errors import DamagedArchive, InvalidArchive
from model_archive.manifest import MANIFEST
from model_archive.tars import open_tar
from model_archive.zips import open_zip

# The ends of names of archives that are unpacked: those that KServe unpacks.
UNPACKED = (".zip", ".tar", ".tar.gz", ".tgz", ".taz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
# torch puts everything below one folder, named after the file that was saved.
_SAVED = {"data.pkl", "version"}
_EXPORTED = "archive_format"


def lone_archive(names: Mapping[PurePosixPath, PurePosixPath]) -> PurePosixPath | None:
    """Return the archive to unpack: the only file, and no model archive (``.mar``).

    ``names`` are the files' names with a suffix for their types, by path.
    """
    if len(names) != 1:
        return None
    ((path, name),) = names.items()
    return path if name.name.lower().endswith(UNPACKED) else None


def suffix_of(path: Path) -> str:
    """Return the suffix for a file's type; empty for what is neither an archive nor a torch model."""
    contents = Contents(path.name, size=path.stat().st_size, cure="pack it again")
    if is_zip(path):
        return _suffix_of_zip(path, contents)
    return ".tar" if _is_tar(path, contents) else ""


def is_zip(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(len(_ZIP[0])) in _ZIP


def _suffix_of_zip(path: Path, contents: Contents) -> str:
    with open_zip(path, contents) as members:
        files = {member.path for member in members if member.open}
    if PurePosixPath(MANIFEST) in files:
        return ".mar"
    inside = {str(file).partition("/")[2] for file in files}
    if inside >= _SAVED:
        return ".pt"
    return ".pt2" if _EXPORTED in inside else ".zip"


def _is_tar(path: Path, contents: Contents) -> bool:
    """By its first member, which may be one that must not be unpacked."""
    try:
        with open_tar(path, contents, is_model=False) as members:
            return next(members, None) is not None
    except DamagedArchive:
        return False
    except InvalidArchive:
        return True
