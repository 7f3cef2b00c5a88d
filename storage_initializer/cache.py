"""A folder of the node that keeps what was downloaded, for the next pod that wants the same.

An entry is named by a digest of its source and the source's listing, with sizes and etags: changed content has
another name, and only a pod that may list the source finds it. Each entry has a lock: exclusive for a download, shared
for using the files, released by the kernel when its holder is killed. Entries that were used least recently are evicted
first, and none that is in use.

The folder is shared: where others can write to it, the entries are in a private folder in it (``private``).

Whatever is wrong with the cache, the model is downloaded as if there were none.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic, sleep

from model_archive.text import format_size
from storage_initializer.cache_entry import CachedFile, DamagedEntry, Entry
from storage_initializer.errors import DestinationError, NoSpaceError
from storage_initializer.kinds import lone_archive
from storage_initializer.limits import CACHE_ATTEMPTS, CACHE_WAIT_S
from storage_initializer.private import private_folder
from storage_initializer.sources import SourceFile

log = logging.getLogger(__name__)

Fill = Callable[[Path], Path]
"""Downloads below a folder, in which an earlier attempt may have left parts; returns the folder with the files."""

# Incremented whenever the same source would result in other files.
_FORMAT = 2
_LOCKS = "locks"
_ROOM = "room"
_KEY = re.compile(r"[0-9a-f]{64}")
_POLL_S = 0.1


@dataclass(frozen=True)
class NodeCache:
    """At most ``limit`` bytes below ``root``. ``boot`` identifies one boot of one node.

    ``wait_s`` is how long to wait for another pod.
    """

    root: Path
    limit: int
    boot: str
    wait_s: float = CACHE_WAIT_S

    def provide(self, source: str, files: Sequence[SourceFile], fill: Fill, *, target: Path) -> bool:
        """Return whether ``target`` has the files now; if not, it does not exist."""
        size = sum(file.size for file in files)
        if reason := self._why_not(files, size):
            log.info("not kept in the node's cache: %s", reason)
            return False
        try:
            with private_folder(self.root) as root:
                replace(self, root=root)._provide(_key(source, files), files, fill, target=target)
        except (OSError, NoSpaceError, DestinationError) as error:
            why = getattr(error, "strerror", None) or error
            log.warning("the node's cache %s cannot be used (%s); downloading without it", self.root, why)
            shutil.rmtree(target, ignore_errors=True)
            return False
        return True

    def _why_not(self, files: Sequence[SourceFile], size: int) -> str:
        if unversioned := next((file.path for file in files if not file.version), None):
            return f"the source reports no version of {unversioned}"
        return f"it needs {format_size(size)} of {format_size(self.limit)}" if size > self.limit else ""

    def _provide(self, key: str, files: Sequence[SourceFile], fill: Fill, *, target: Path) -> None:
        size, listed = sum(file.size for file in files), _as_listed(files)
        locks = self.root / _LOCKS
        locks.mkdir(exist_ok=True)
        # Who may open a lock can hold it.
        locks.chmod(0o700)
        entry = Entry(self.root / key, self.boot)
        for _ in range(CACHE_ATTEMPTS):
            with self._locked(key, fcntl.LOCK_SH):
                if (cached := _usable(entry, listed)) is not None:
                    ways = entry.share(cached, target)
                    log.info("from the node's cache: %s", ", ".join(f"{ways[way]} {way}" for way in ways))
                    return
            with self._locked(key, fcntl.LOCK_EX):
                if not entry.is_complete:
                    self._make_room(entry, size, to_write=size)
                    entry.commit(fill(entry.work))
                    # What was unpacked is more than what was downloaded.
                    self._make_room(entry, entry.size, to_write=0)
        raise NoSpaceError("other models push this one out at once")

    def _make_room(self, entry: Entry, size: int, *, to_write: int) -> None:
        with self._locked(_ROOM, fcntl.LOCK_EX):
            others = sorted(self._others(entry), key=lambda other: other.last_used_ns)
            total = size + sum(other.size for other in others)
            for other in others:
                if total <= self.limit and shutil.disk_usage(self.root).free >= to_write:
                    break
                freed = other.size
                if self._evict(other):
                    total -= freed
            if to_write and total > self.limit:
                raise NoSpaceError(f"all of its {format_size(self.limit)} are in use")
            # A full disk affects the whole node.
            if to_write > (free := shutil.disk_usage(self.root).free + entry.arrived):
                raise NoSpaceError(f"its disk has {format_size(free)} free")
            entry.reserve(size)

    def _others(self, entry: Entry) -> Iterator[Entry]:
        for folder in self.root.iterdir():
            if _KEY.fullmatch(folder.name) and folder != entry.folder:
                yield Entry(folder, self.boot)

    def _evict(self, entry: Entry) -> bool:
        try:
            with self._locked(entry.folder.name, fcntl.LOCK_EX | fcntl.LOCK_NB):
                entry.remove()
        except OSError:  # in use, or another user's
            return False
        log.info("removed from the node's cache: %s", entry.folder.name)
        return True

    @contextmanager
    def _locked(self, name: str, operation: int) -> Iterator[None]:
        """Hold a lock. Its file is never deleted: a process that waits for it would wait for a deleted one."""
        descriptor = os.open(self.root / _LOCKS / name, os.O_RDONLY | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
            except BlockingIOError:
                if operation & fcntl.LOCK_NB:
                    raise
                log.info("waiting for another pod, which fills the node's cache")
                _wait_for(descriptor, operation, monotonic() + self.wait_s)
            yield
        finally:
            os.close(descriptor)


def _wait_for(descriptor: int, operation: int, end: float) -> None:
    while monotonic() < end:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
            return
        sleep(_POLL_S)
    raise OSError(errno.ETIMEDOUT, "another pod has been filling it for too long")


def _key(source: str, files: Sequence[SourceFile]) -> str:
    listing = sorted((str(file.path), file.size, file.version) for file in files)
    return hashlib.sha256(json.dumps([_FORMAT, source, listing]).encode()).hexdigest()


def _as_listed(files: Sequence[SourceFile]) -> Mapping[str, SourceFile]:
    """Return the source's files by the paths that they have in an entry; none if these may be others.

    They are others if an archive is unpacked, or if a file is named by what it holds.
    """
    if any(file.untyped or (file.streamed and not file.size) for file in files):
        return {}
    if lone_archive({file.path: file.path for file in files if file.size}):
        return {}
    return {str(file.path): file for file in files}


def _usable(entry: Entry, listed: Mapping[str, SourceFile]) -> Sequence[CachedFile] | None:
    """Return the files of an entry, or None if it cannot be used."""
    if not entry.is_complete:
        return None
    try:
        return entry.read(listed)
    except DamagedEntry as damage:
        log.warning("damaged in the node's cache: %s; fetching it again", damage)
        entry.condemn()
        return None
