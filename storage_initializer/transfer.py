"""Brings one source to its destination: all of it, verified, or nothing.

The destination is a mount point and cannot be renamed itself, so the files are staged in a hidden folder inside it
and its entries renamed one by one at the end. A run that is killed leaves that folder, and in the worst moment some
of the entries in place, each whole; the next run begins anew. Nothing is synced to disk: after a crash of its node a
pod's init containers run again.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from zlib import crc32

from storage_initializer.backends import Report, Source, SourceFile
from storage_initializer.errors import CopyError, DestinationError, NoSpaceError
from storage_initializer.progress import Clock, Progress, format_size
from storage_initializer.termination import uninterrupted

log = logging.getLogger(__name__)

STAGING = ".storage-initializer"
_BUFFER_BYTES = 1 << 20

Check = Callable[[Path], None]
"""Raises if the folder, not yet in place, must not get there."""


def bring(source: Source, destination: Path, check: Check, clock: Clock) -> str:
    """Returns the summary, for the log."""
    with _writing(destination):
        destination.mkdir(parents=True, exist_ok=True)
        _remove(destination / STAGING)
    files = source.list_files()
    with _writing(destination), _staging(destination) as staging:
        _make_room(destination, files)
        progress = Progress(len(files), sum(file.size for file in files), clock)
        for file in files:
            _copy(source, file, staging, progress.advance)
            progress.finish(file)
        check(staging)
        _put_in_place(staging, destination)
    return progress.summary()


def _make_room(destination: Path, files: Sequence[SourceFile]) -> None:
    """A volume that is sized for one copy must also take the next: the copy to be replaced gives way first."""
    needed, free = sum(file.size for file in files), shutil.disk_usage(destination).free
    if needed <= free:
        return
    replaced = [destination / name for name in {file.path.parts[0] for file in files}]
    if needed <= free + sum(map(_size_of, replaced)):
        log.info("removing the earlier copy to make room")
        for path in replaced:
            _remove(path)
        return
    raise NoSpaceError(
        f"it needs {format_size(needed)}, but {destination} has {format_size(free)} free; use a bigger volume or node"
    )


def _size_of(path: Path) -> int:
    return sum(each.lstat().st_size for each in (path, *path.rglob("*")) if each.is_file())


def _copy(source: Source, file: SourceFile, staging: Path, report: Report) -> None:
    """The copy is read back while it is still in the page cache: that costs a fraction of the copy itself, and
    finds what a count of bytes does not. CRC-32 guards against accidents and is the fastest check in the
    standard library on every processor; an adversary could change the source as well.
    """
    target = staging / file.path
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as stream:
        received = source.fetch(file, stream, report)
    target.chmod(0o755 if file.executable else 0o644)
    written = target.stat().st_size
    if written != file.size:
        raise CopyError(f"{file.path} has {file.size} bytes, but {written} arrived; start again when it is complete")
    if _checksum(target, file.size) != received:
        raise CopyError(f"the copy of {file.path} does not read back as it was written; check the node's disk")


def _checksum(path: Path, size: int) -> int:
    buffer, checksum = memoryview(bytearray(min(size, _BUFFER_BYTES))), 0
    with path.open("rb", buffering=0) as stream:
        while count := stream.readinto(buffer):
            checksum = crc32(buffer[:count], checksum)
    return checksum


@contextmanager
def _staging(destination: Path) -> Iterator[Path]:
    folder = destination / STAGING
    new = folder / "new"
    try:
        new.mkdir(parents=True)
        yield new
    finally:
        with uninterrupted():
            _remove(folder)


def _put_in_place(staging: Path, destination: Path) -> None:
    """What an earlier run left under the same name makes room; other entries are not ours to touch."""
    old = staging.parent / "old"
    with uninterrupted():
        old.mkdir()
        for entry in sorted(staging.iterdir()):
            place = destination / entry.name
            if os.path.lexists(place):
                place.rename(old / entry.name)
            entry.rename(place)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def _writing(destination: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NoSpaceError(f"{destination} filled up during the copy; use a bigger volume or node") from error
        raise DestinationError(
            f"{destination} cannot be written as user {os.geteuid()} ({error.strerror}); mount a writable volume there"
        ) from error
