"""What an archive may hold: files and folders below its own folder, of a limited number and size. Pure.

The rules are stricter than any one file system needs: a name that every file system takes may still mean two things on
two of them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath

from model_archive.errors import DamagedArchive, InvalidArchive, UnsafeArchive
from model_archive.limits import HARMLESS_SIZE, MAX_ENTRIES, MAX_EXPANSION, MAX_NAME, MAX_PATH
from model_archive.text import format_size, quoted

_DRIVE = re.compile("[A-Za-z]:")

Spelling = Callable[[str], str]
"""Two paths of one spelling are the same path."""


def exact(path: str) -> str:
    """Compare names as Linux does."""
    return path


def folded(path: str) -> str:
    """Compare names as file systems do that ignore case and the form of accents."""
    return unicodedata.normalize("NFKC", path).casefold()


@dataclass(frozen=True)
class _KnownPath:
    path: str
    is_file: bool


class Contents:
    """The entries of an archive. The first one that must not be unpacked raises UnsafeArchive.

    ``archive`` is its name in messages, ``size`` its own size, ``cure`` says how it is made properly.
    """

    def __init__(self, archive: str, *, size: int, cure: str, spelling: Spelling) -> None:
        self.limit = max(HARMLESS_SIZE, MAX_EXPANSION * size)
        self.size = 0
        self._archive = archive
        self._archive_size = size
        self._cure = cure
        self._spelling = spelling
        self._known: dict[str, _KnownPath] = {}

    def add_file(self, name: str, size: int) -> PurePosixPath:
        """Return its path below the archive's folder."""
        path = self.path(name)
        if not path.parts:
            raise self.hostile(f"would unpack {quoted(name)} outside of its folder")
        self._add_folders(path)
        self._add(path, is_file=True)
        self.size += size
        if self.size > self.limit:
            raise self.bomb(self.size)
        return path

    def add_folder(self, name: str) -> PurePosixPath:
        """Return its path below the archive's folder."""
        path = self.path(name)
        self._add_folders(path)
        if path.parts:
            self._add(path, is_file=False)
        return path

    def refusal(self, what: str) -> UnsafeArchive:
        """Return the error for an entry that cannot be unpacked."""
        return UnsafeArchive(f"{self._archive} {what}; {self._cure}")

    def unsupported(self, what: str) -> InvalidArchive:
        """Return the error for an archive that TorchServe cannot open."""
        return InvalidArchive(f"{self._archive} {what}; {self._cure}")

    def hostile(self, what: str) -> UnsafeArchive:
        """Return the error for what nobody makes by mistake."""
        return UnsafeArchive(f"{self._archive} {what}; do not use it, {self._cure}")

    def bomb(self, size: int) -> UnsafeArchive:
        """Return the error for an archive of too much content."""
        weight = format_size(self._archive_size)
        return self.hostile(f"has {weight} and claims to unpack to {format_size(size)} or more")

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

    def _add_folders(self, path: PurePosixPath) -> None:
        for folder in path.parents:
            if folder.parts:
                self._add(folder, is_file=False)

    def _add(self, path: PurePosixPath, *, is_file: bool) -> None:
        new = _KnownPath(str(path), is_file)
        known = self._known.setdefault(self._spelling(new.path), new)
        if len(self._known) > MAX_ENTRIES:
            raise self.hostile(f"holds more than {MAX_ENTRIES} files and folders")
        if known is new or (known == new and not is_file):
            return
        if known == new:
            raise self.refusal(f"holds {quoted(new.path)} twice")
        if known.is_file != is_file:
            raise self.refusal(f"holds {quoted(new.path)} as a file and as a folder")
        raise self.refusal(
            f"holds {quoted(known.path)} and {quoted(new.path)}, which some file systems take for the same"
        )


def _leaves_folder(name: str) -> bool:
    parts = name.replace("\\", "/").split("/")
    return not parts[0] or bool(_DRIVE.match(parts[0])) or ".." in parts or "\0" in name
