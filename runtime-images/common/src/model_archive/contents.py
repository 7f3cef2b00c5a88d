"""What an archive may hold: files and folders below its own folder, of a limited number and size. Pure.

A name may mean something else on another file system than Linux's own, so more names are refused than Linux needs.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO, Literal, Protocol

from model_archive.errors import DamagedArchive, InvalidArchive, UnsafeArchive
from model_archive.limits import HARMLESS_SIZE, MAX_ENTRIES, MAX_EXPANSION, MAX_NAME, MAX_PATH
from model_archive.text import format_size, quoted

_DRIVE = re.compile("[A-Za-z]:")


class ArchiveFile(Protocol):
    """A file with an archive, wherever it is read from. A Path is one."""

    @property
    def name(self) -> str: ...

    def open(self, mode: Literal["rb"], /) -> IO[bytes]:
        """Open it for reading at any place."""


@dataclass(frozen=True)
class Member:
    """What an archive holds: a file, a folder or a link, by its path below the archive's folder."""

    path: PurePosixPath
    size: int = 0
    open: Callable[[], IO[bytes]] | None = None
    """Opens a file's content, while the archive is open; None for a folder and a link."""
    is_executable: bool = False
    link: PurePosixPath | None = None
    """What a link leads to, below the archive's folder as well."""


class Contents:
    """The entries of an archive. The first one that must not be unpacked raises UnsafeArchive.

    ``archive`` is its name in messages, ``size`` its own size, ``cure`` says how it is made properly.
    """

    def __init__(self, archive: str, *, size: int, cure: str) -> None:
        self.archive_size = size
        self.size = 0
        self.limit = max(HARMLESS_SIZE, MAX_EXPANSION * size)
        self._archive = archive
        self._cure = cure
        self._files: set[PurePosixPath] = set()
        self._folders: set[PurePosixPath] = set()

    def add_file(self, name: str, size: int) -> PurePosixPath:
        """Return its path below the archive's folder."""
        path = self.path(name)
        if not path.parts:
            raise self.hostile(f"would unpack {quoted(name)} outside of its folder")
        self._add_folders(path.parents)
        if path in self._folders:
            raise self._both(path)
        if path in self._files:
            raise self.refusal(f"holds {quoted(str(path))} twice")
        self._files.add(path)
        self._check_count()
        self.size += size
        self.check_size(self.size)
        return path

    def add_folder(self, name: str) -> PurePosixPath:
        """Return its path below the archive's folder."""
        path = self.path(name)
        self._add_folders((path, *path.parents))
        return path

    def check_size(self, size: int) -> None:
        """Refuse an archive that has this many bytes, unpacked."""
        if size > self.limit:
            weight = format_size(self.archive_size)
            raise self.hostile(f"has {weight} and claims to unpack to {format_size(size)} or more")

    def refusal(self, what: str) -> UnsafeArchive:
        return UnsafeArchive(f"{self._archive} {what}; {self._cure}")

    def unsupported(self, what: str) -> InvalidArchive:
        return InvalidArchive(f"{self._archive} {what}; {self._cure}")

    def hostile(self, what: str) -> UnsafeArchive:
        """Return the error for what nobody makes by mistake."""
        return UnsafeArchive(f"{self._archive} {what}; do not use it, {self._cure}")

    def damaged(self, how: str) -> DamagedArchive:
        """Return the error for an archive that cannot be read to its end."""
        return DamagedArchive(f"{self._archive} {how}; copy it to the source again")

    def path(self, name: str) -> PurePosixPath:
        """Return an entry's path below the archive's folder, without adding it."""
        # Also as it is read where letters of full width count as plain ones.
        if any(map(_leaves_folder, (name, unicodedata.normalize("NFKC", name)))):
            raise self.hostile(f"would unpack {quoted(name)} outside of its folder")
        if not name.isprintable():
            raise self.refusal(f"holds a name with invisible characters, {quoted(name)}")
        path = PurePosixPath(name.replace("\\", "/"))
        if len(str(path).encode()) > MAX_PATH or any(len(part.encode()) > MAX_NAME for part in path.parts):
            raise self.refusal(f"holds a name that is too long, {quoted(name)}")
        return path

    def _add_folders(self, folders: Iterable[PurePosixPath]) -> None:
        for folder in folders:
            if folder in self._files:
                raise self._both(folder)
            if folder.parts:
                self._folders.add(folder)
        self._check_count()

    def _both(self, path: PurePosixPath) -> UnsafeArchive:
        return self.refusal(f"holds {quoted(str(path))} as a file and as a folder")

    def _check_count(self) -> None:
        if len(self._files) + len(self._folders) > MAX_ENTRIES:
            raise self.hostile(f"holds more than {MAX_ENTRIES} files and folders")


def _leaves_folder(name: str) -> bool:
    parts = name.replace("\\", "/").split("/")
    return not parts[0] or bool(_DRIVE.match(parts[0])) or ".." in parts or "\0" in name
