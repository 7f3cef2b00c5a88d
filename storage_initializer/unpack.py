"""Unpacks a download that is one archive, strictly, and only into its folder.

No links are created: a link to a file of the archive becomes a second name of that file, and any other is refused. So
no path in the folder leads out of it, whatever the order of the entries. Archives in the archive stay packed. An
archive that holds nothing but another one is refused, as no server could use it.
"""

from __future__ import annotations

import logging
import posixpath
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import IO

from model_archive.archive import ENDINGS, check_archive
from model_archive.compression import compression_of
from model_archive.contents import Contents, folded
from model_archive.errors import InvalidArchive, UnsafeArchive
from model_archive.tars import open_tar
from model_archive.text import format_size, quoted
from model_archive.zips import is_executable, open_zip
from storage_initializer.errors import EmptySourceError, NoSpaceError
from storage_initializer.kinds import UNPACKED, is_zip
from storage_initializer.limits import MAX_LINKS
from storage_initializer.sharing import share_file

log = logging.getLogger(__name__)

_BUFFER_BYTES = 1 << 20
_REPACK = "pack the model's files again"


def lone_archive(names: Mapping[PurePosixPath, PurePosixPath]) -> PurePosixPath | None:
    """Return the archive to unpack: the only file, and no model archive (``.mar``).

    ``names`` are the files' names with a suffix for their types, by path.
    """
    if len(names) != 1:
        return None
    ((path, name),) = names.items()
    return path if name.name.lower().endswith(UNPACKED) else None


def unpack(archive: Path, folder: Path) -> None:
    """Unpack into ``folder``, which is created; callers remove it if this raises."""
    size = archive.stat().st_size
    log.info("unpacking %s (%s)", archive.name, format_size(size))
    contents = Contents(archive.name, size=size, cure=_REPACK, spelling=folded)
    target = _Target(folder, contents)
    if archive.name.lower().endswith(".zip") or is_zip(archive):
        _unzip(archive, target, contents)
    else:
        _untar(archive, target, contents)
    if not target.files:
        raise EmptySourceError(f"there is no file in {archive.name}; {_REPACK}")
    inner = lone_archive({path: path for path in target.files})
    if inner and not _is_model(folder / inner):
        raise UnsafeArchive(
            f"{archive.name} holds nothing but another archive, {quoted(str(inner))}; pack the model's files themselves"
        )
    log.info("unpacked %d files, %s", len(target.files), format_size(contents.size))


def _is_model(archive: Path) -> bool:
    """Return whether TorchServe loads the archive packed: a ``.tar.gz`` may be a model archive as well."""
    if not archive.name.endswith(ENDINGS):
        return False
    try:
        check_archive(archive, archive.name)
    except InvalidArchive:
        return False
    return True


def _unzip(archive: Path, target: _Target, contents: Contents) -> None:
    with open_zip(archive, contents) as source:
        target.check_room()
        for path, info in source.files.items():
            with source.open(info) as content:
                target.write(path, content, info.file_size, executable=is_executable(info))


def _untar(archive: Path, target: _Target, contents: Contents) -> None:
    links: dict[PurePosixPath, PurePosixPath] = {}
    # By its content: a server that applies Content-Encoding has decompressed a .tar.gz.
    with open_tar(archive, contents, compression_of(archive)) as source:
        for member in source:
            if member.isdir():
                contents.add_folder(member.name)
            elif member.isfile():
                path = contents.add_file(member.name, member.size)
                target.check_room()
                target.write(path, source.content(member), member.size, executable=bool(member.mode & 0o111))
            elif member.issym() or member.islnk():
                path = contents.add_file(member.name, 0)
                links[path] = _destination(member, path, contents)
            else:
                raise contents.refusal(f"holds a device, {quoted(member.name)}")
    for path in links:
        target.link(path, _follow(path, links))


def _destination(member: tarfile.TarInfo, path: PurePosixPath, contents: Contents) -> PurePosixPath:
    base = path.parent if member.issym() else PurePosixPath()
    destination = PurePosixPath(posixpath.normpath(base / member.linkname))
    if destination.is_absolute() or destination.parts[:1] == ("..",):
        raise contents.hostile(f"holds a link out of its folder, {quoted(member.name)}")
    return destination


def _follow(path: PurePosixPath, links: dict[PurePosixPath, PurePosixPath]) -> PurePosixPath:
    for _ in range(MAX_LINKS):
        if path not in links:
            break
        path = links[path]
    return path


class _Target:
    """The folder that the files are written to, and their paths."""

    def __init__(self, folder: Path, contents: Contents) -> None:
        folder.mkdir(parents=True)
        self.files: set[PurePosixPath] = set()
        self._folder = folder
        self._contents = contents
        self._room = shutil.disk_usage(folder).free

    def check_room(self) -> None:
        if self._contents.size > self._room:
            raise NoSpaceError(
                f"it unpacks to {format_size(self._contents.size)} or more, but {self._folder} has "
                f"{format_size(self._room)} free; use a bigger volume or node"
            )

    def write(self, path: PurePosixPath, content: IO[bytes], size: int, *, executable: bool) -> None:
        place = self._place(path)
        with place.open("xb") as file:
            shutil.copyfileobj(content, file, _BUFFER_BYTES)
        place.chmod(0o755 if executable else 0o644)
        if (written := place.stat().st_size) != size:
            raise self._contents.damaged(f"holds {quoted(str(path))} with {written} bytes instead of {size}")
        self.files.add(path)

    def link(self, path: PurePosixPath, destination: PurePosixPath) -> None:
        if destination not in self.files:
            raise self._contents.refusal(f"holds a link, {quoted(str(path))}, to what is no file in it")
        source = self._folder / destination
        share_file(source, self._place(path), source.stat().st_mode)
        self.files.add(path)

    def _place(self, path: PurePosixPath) -> Path:
        place = self._folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        return place
