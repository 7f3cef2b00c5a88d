"""One entry of the node's cache: the files of a source, and a manifest by which damage is found.

An entry is complete once it has its manifest, which is written last. Nothing is synced to disk, so a crash of the
node may leave a manifest without its files' content, and a disk may lose content by itself. So a small entry is read
whole at each use, and a large one at its first use after a boot. At every other use its files' sizes and times are
compared, which costs nothing and finds changes by programs.

What an entry says of itself may be written by whoever can write to the cache. So its files have to be those that the
source lists, none may lie outside of the entry, and what is read is compared with the source's checksum, if it has one.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path, PurePosixPath

from storage_initializer.checksums import checksum_of
from storage_initializer.limits import CACHE_READ_ALWAYS
from storage_initializer.sharing import share_file
from storage_initializer.sources import Checksum, SourceFile

_ALGORITHM = "crc32"


class DamagedEntry(Exception):
    """An entry is not as it was; the message says in what."""


@dataclass(frozen=True)
class CachedFile:
    path: str
    size: int
    modified_ns: int
    checksum: str
    executable: bool


class Entry:
    """``boot`` identifies one boot of one node; empty where that is not known."""

    def __init__(self, folder: Path, boot: str) -> None:
        self.folder = folder
        self.work = folder / "work"
        self._files = folder / "files"
        self._manifest = folder / "manifest.json"
        self._checked = folder / f"checked-{boot}" if boot else None
        # The space that it takes or will take; the file's time is that of the last use.
        self._size = folder / "size"

    @property
    def is_complete(self) -> bool:
        return self._manifest.exists()

    @property
    def size(self) -> int:
        try:
            return int(self._size.read_text(encoding="ascii"))
        except (OSError, ValueError):
            return 0

    @property
    def arrived(self) -> int:
        """Bytes on the disk of an interrupted download."""
        files = [path.lstat() for path in self.work.rglob("*")]
        return sum(512 * status.st_blocks for status in files)

    @property
    def last_used_ns(self) -> int:
        try:
            return self._size.stat().st_mtime_ns
        except OSError:
            return 0

    def reserve(self, size: int) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._size.write_text(str(size), encoding="ascii")

    def commit(self, made: Path) -> None:
        """Make a folder the content. Its files become read-only, as a hard link in a pod is the same file."""
        shutil.rmtree(self._files, ignore_errors=True)
        made.rename(self._files)
        shutil.rmtree(self.work, ignore_errors=True)
        files = [self._describe(path) for path in sorted(self._files.rglob("*")) if path.is_file()]
        self.reserve(sum(file.size for file in files))
        self._note_check()
        draft = self._manifest.with_suffix(".new")
        draft.write_text(json.dumps([astuple(file) for file in files]), encoding="utf-8")
        draft.rename(self._manifest)

    def read(self, listed: Mapping[str, SourceFile]) -> Sequence[CachedFile]:
        """Return its files; raises DamagedEntry. It must have the ``listed`` ones, unless there are none."""
        files = self._read_manifest()
        if listed and {file.path for file in files} != listed.keys():
            raise DamagedEntry("it has other files than the source")
        must_be_read = self._must_be_read(files)
        for file in files:
            source = listed.get(file.path)
            if not self._looks_whole(file, source) or (must_be_read and not self._is_whole(file, source)):
                raise DamagedEntry(f"{file.path} is not as it was")
        self._note_check()
        return files

    def condemn(self) -> None:
        """Mark it incomplete; pods that read its files now are not affected."""
        self._manifest.unlink(missing_ok=True)

    def remove(self) -> None:
        self.condemn()
        shutil.rmtree(self.folder)

    def share(self, files: Sequence[CachedFile], target: Path) -> Counter[str]:
        """Create its files at ``target``; return how many were linked, cloned and copied."""
        ways: Counter[str] = Counter()
        for file in files:
            place = target / file.path
            place.parent.mkdir(parents=True, exist_ok=True)
            ways[share_file(self._files / file.path, place, 0o755 if file.executable else 0o644)] += 1
        self._size.touch()
        return ways

    def _read_manifest(self) -> list[CachedFile]:
        try:
            files = [CachedFile(*fields) for fields in json.loads(self._manifest.read_bytes())]
            paths = [PurePosixPath(file.path) for file in files]
        except (ValueError, TypeError) as error:
            raise DamagedEntry("its manifest cannot be read") from error
        if any(path.is_absolute() or ".." in path.parts for path in paths):
            raise DamagedEntry("its manifest names a file outside of it")
        return files

    def _describe(self, path: Path) -> CachedFile:
        executable = bool(path.stat().st_mode & 0o111)
        path.chmod(0o555 if executable else 0o444)
        status = path.stat()
        name = str(path.relative_to(self._files))
        return CachedFile(name, status.st_size, status.st_mtime_ns, checksum_of(path, _ALGORITHM).value, executable)

    def _note_check(self) -> None:
        if self._checked:
            self._checked.touch()

    def _must_be_read(self, files: list[CachedFile]) -> bool:
        was_read = self._checked is not None and self._checked.exists()
        return not was_read or sum(file.size for file in files) <= CACHE_READ_ALWAYS

    def _looks_whole(self, file: CachedFile, source: SourceFile | None) -> bool:
        path = self._files / file.path
        if os.path.realpath(path) != str(
            self.folder.parent.resolve() / self.folder.name / self._files.name / file.path
        ):
            return False  # by a link
        try:
            status = path.lstat()
        except FileNotFoundError:
            return False
        if not stat.S_ISREG(status.st_mode) or (source and source.size not in (status.st_size, 0)):
            return False
        return (status.st_size, status.st_mtime_ns) == (file.size, file.modified_ns)

    def _is_whole(self, file: CachedFile, source: SourceFile | None) -> bool:
        expected = (source and source.checksum) or Checksum(_ALGORITHM, file.checksum)
        return checksum_of(self._files / file.path, expected.algorithm) == expected
