"""A model archive as TorchServe 0.12 loads it: a ``.mar``, a ``.tar.gz``, or a folder with the same files.

A ``.mar`` is a zip, any other file a ``.tar.gz``. In a ``.tar.gz`` all names begin with a folder, which is left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from model_archive.contents import ArchiveFile, Contents, Member
from model_archive.errors import DamagedArchive, InvalidArchive
from model_archive.limits import MAX_MANIFEST
from model_archive.manifest import FOLDER, MANIFEST, REPACK, Manifest, missing_manifest, parse_manifest
from model_archive.tars import open_tar
from model_archive.zips import open_zip

ENDINGS = (".mar", ".model", ".tar.gz")
"""The file names that ``load_models=all`` loads."""
HANDLER = "handler.py"
"""The name by which a folder's handler is found."""


def is_model(path: Path) -> bool:
    """Return whether ``load_models=all`` loads this entry of a model store; its manifest may still be invalid."""
    if path.name.startswith("."):
        return False
    return is_unpacked(path) if path.is_dir() else path.name.endswith(ENDINGS)


def is_unpacked(folder: Path) -> bool:
    """Return whether a folder is an archive that has been unpacked; a model store may hold other folders."""
    return os.path.isdir(model_folder(folder) / FOLDER)  # noqa: PTH112 - Path.is_dir raises where it may not look


def is_source(folder: Path) -> bool:
    """Return whether a folder is a model with its handler, packed or not."""
    return is_unpacked(folder) or (folder / HANDLER).is_file()


def model_folder(folder: Path) -> Path:
    """Return the folder with the model's files: the archive's own, or the lone folder in it that some tools create."""
    try:
        entries = list(folder.iterdir())
    except OSError:  # such as lost+found, which only root may read
        return folder
    is_lone = len(entries) == 1 and entries[0].name != FOLDER and os.path.isdir(entries[0])  # noqa: PTH112
    return entries[0] if is_lone else folder


def check_archive(path: Path, name: str) -> Manifest:
    """Check all but the content of a zip's files; raise InvalidArchive. ``name`` is the archive's in messages."""
    if path.is_dir():
        return _manifest_of_folder(path, name)
    content = None
    with open_archive(path, name) as members:
        for member in members:
            if member.open and member.path == PurePosixPath(MANIFEST):
                with member.open() as stream:
                    content = stream.read(MAX_MANIFEST + 1)
    return _parse(content, path, name)


def has_manifest(file: ArchiveFile, name: str) -> bool:
    """Return whether a ``.tar.gz``, which may hold anything, is a model archive; it is read up to the manifest.

    Raise DamagedArchive if it cannot be told.
    """
    try:
        with open_archive(file, name) as members:
            return any(member.path == PurePosixPath(MANIFEST) for member in members)
    except DamagedArchive:
        raise
    except InvalidArchive:
        return False


def read_manifest(path: Path, name: str) -> Manifest:
    """Return an archive's manifest; of a ``.tar.gz`` nothing behind the manifest is read. Raise InvalidArchive."""
    if path.is_dir():
        return _manifest_of_folder(path, name)
    return _parse(read_file(path, MANIFEST, name, limit=MAX_MANIFEST), path, name)


def read_file(path: Path, file: str, name: str, *, limit: int = -1) -> bytes | None:
    """Return the content of a file in an archive, None where there is no such file; raise InvalidArchive or OSError.

    Of more than ``limit`` bytes one too many is returned.
    """
    if path.is_dir():
        place = model_folder(path) / file
        return place.read_bytes() if place.is_file() else None
    with open_archive(path, name) as members:
        for member in members:
            if member.open and member.path == PurePosixPath(file):
                with member.open() as content:
                    return content.read(limit + 1 if limit >= 0 else -1)
    return None


@contextmanager
def open_archive(path: ArchiveFile, name: str) -> Iterator[Iterable[Member]]:
    """Open a ``.mar`` or ``.tar.gz``, whose files are read one by one; raise InvalidArchive, also in the block."""
    with path.open("rb") as stream:
        contents = Contents(name, size=stream.seek(0, os.SEEK_END), cure=REPACK)
    is_zip = path.name.endswith(".mar")
    with open_zip(path, contents) if is_zip else open_tar(path, contents, is_model=True) as members:
        yield members


def _manifest_of_folder(folder: Path, name: str) -> Manifest:
    manifest = model_folder(folder) / MANIFEST
    if not manifest.is_file():
        raise missing_manifest(name)
    with manifest.open("rb") as stream:
        return parse_manifest(stream.read(MAX_MANIFEST + 1), name)


def _parse(content: bytes | None, path: Path, name: str) -> Manifest:
    if content is None:
        raise missing_manifest(name, "" if path.name.endswith(".mar") else " below its top folder")
    return parse_manifest(content, name)
