"""What an archive may hold to be unpacked: files and folders below its own folder, no more than it can be worth. Pure.

The rules hold for every kind of archive, whether it is unpacked here or later by a model server. They are stricter
than any one file system needs: what is refused nowhere may still mean two things in two places.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath

from storage_initializer.errors import ArchiveError
from storage_initializer.limits import HARMLESS_SIZE, MAX_ENTRIES, MAX_EXPANSION, MAX_NAME, MAX_PATH
from storage_initializer.progress import format_size

_SHOWN = 80

Spelling = Callable[[str], str]
"""Two paths of one spelling are the same path."""


def exact(path: str) -> str:
    """As Linux tells names apart."""
    return path


def folded(path: str) -> str:
    """As file systems do that ignore case, or the form that accents are written in."""
    return unicodedata.normalize("NFKC", path).casefold()


@dataclass(frozen=True)
class _Known:
    path: str
    is_file: bool


class Contents:
    """What an archive says it holds, refused at the first entry that must not be unpacked.

    ``archive`` is how messages call it, ``cure`` how it is made properly.
    """

    def __init__(self, archive: str, size: int, cure: str, spelling: Spelling) -> None:
        self.limit = max(HARMLESS_SIZE, MAX_EXPANSION * size)
        self.size = 0
        self._archive = archive
        self._archive_size = size
        self._cure = cure
        self._spelling = spelling
        self._known: dict[str, _Known] = {}

    def add_file(self, name: str, size: int) -> PurePosixPath:
        """Where it belongs, below the archive's folder."""
        path = self._path(name)
        if not path.parts:
            raise self.hostile(f"would unpack {shown(name)} outside of its folder")
        self._add_folders(path)
        self._add(path, is_file=True)
        self.size += size
        if self.size > self.limit:
            raise self.bomb(self.size)
        return path

    def add_folder(self, name: str) -> PurePosixPath:
        path = self._path(name)
        self._add_folders(path)
        if path.parts:
            self._add(path, is_file=False)
        return path

    def refusal(self, what: str) -> ArchiveError:
        return ArchiveError(f"{self._archive} {what}; {self._cure}")

    def hostile(self, what: str) -> ArchiveError:
        """Of what nobody makes by mistake."""
        return ArchiveError(f"{self._archive} {what}; do not use it, {self._cure}")

    def bomb(self, size: int) -> ArchiveError:
        weight = format_size(self._archive_size)
        return self.hostile(f"has {weight} and claims to unpack to {format_size(size)} or more")

    def damaged(self, how: str) -> ArchiveError:
        return ArchiveError(f"{self._archive} {how}; copy it to the source again")

    def _path(self, name: str) -> PurePosixPath:
        # Also as it is read where letters of full width count as plain ones.
        if any(map(_leaves_folder, (name, unicodedata.normalize("NFKC", name)))):
            raise self.hostile(f"would unpack {shown(name)} outside of its folder")
        if not name.isprintable():
            raise self.refusal(f"holds a name with invisible characters, {shown(name)}")
        path = PurePosixPath(name.replace("\\", "/"))
        if len(str(path).encode()) > MAX_PATH or any(len(part.encode()) > MAX_NAME for part in path.parts):
            raise self.refusal(f"holds a name that is too long, {shown(name)}")
        return path

    def _add_folders(self, path: PurePosixPath) -> None:
        for folder in path.parents:
            if folder.parts:
                self._add(folder, is_file=False)

    def _add(self, path: PurePosixPath, *, is_file: bool) -> None:
        new = _Known(str(path), is_file)
        known = self._known.setdefault(self._spelling(new.path), new)
        if len(self._known) > MAX_ENTRIES:
            raise self.hostile(f"holds more than {MAX_ENTRIES} files and folders")
        if known is new or (known == new and not is_file):
            return
        if known == new:
            raise self.refusal(f"holds {shown(new.path)} twice")
        if known.is_file != is_file:
            raise self.refusal(f"holds {shown(new.path)} as a file and as a folder")
        raise self.refusal(
            f"holds {shown(known.path)} and {shown(new.path)}, which some file systems take for the same"
        )


def shown(name: str) -> str:
    """For a message: what cannot be printed escaped, and not the whole of what is too long."""
    return repr(name) if len(name) <= _SHOWN else f"{name[:_SHOWN]!r}…"


def _leaves_folder(name: str) -> bool:
    parts = name.replace("\\", "/").split("/")
    return not parts[0] or ":" in parts[0] or ".." in parts or "\0" in name
