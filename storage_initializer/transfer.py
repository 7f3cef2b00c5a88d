"""Brings one source to its destination: all of it, verified, or nothing.

The destination is a mount point and cannot be renamed itself, so the files are staged in a hidden folder inside it
and its entries renamed one by one at the end. A run that is killed leaves that folder, and in the worst moment some
of the entries in place, each whole; the next run keeps what had arrived, if the source is still the same. Nothing is
synced to disk: after a crash of its node a pod's init containers run again, and then nothing is kept.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from storage_initializer.backends import Source, SourceFile
from storage_initializer.cache import NodeCache
from storage_initializer.download import download
from storage_initializer.errors import DestinationError, InitializerError, NoSpaceError
from storage_initializer.journal import discard_journal
from storage_initializer.progress import Clock, Progress, format_size
from storage_initializer.retry import Retry
from storage_initializer.termination import uninterrupted
from storage_initializer.unpack import lone_archive, unpack

log = logging.getLogger(__name__)

STAGING = ".storage-initializer"
_ARRIVING = "arriving"

Select = Callable[[Sequence[SourceFile]], Sequence[SourceFile]]
"""Which of the source's files are wanted."""
Finish = Callable[[Path], None]
"""Raises if the folder, not yet in place, must not get there."""


def bring(
    source: Source,
    destination: Path,
    select: Select,
    finish: Finish,
    retry: Retry,
    clock: Clock,
    cache: NodeCache | None = None,
) -> str:
    """Returns the summary, for the log."""
    with _writing(destination):
        destination.mkdir(parents=True, exist_ok=True)
    files = select(retry.run(source.list_files))
    with _writing(destination), _staging(destination) as staging:
        new = staging / "new"
        progress = Progress(len(files), sum(file.size for file in files), clock)

        def fetch(folder: Path) -> Path:
            return _fetch(source, files, folder, progress, retry)

        if cache and cache.bring(source.identity, files, fetch, new):
            progress.reuse_rest()
        else:
            _make_room(destination, files, _size_of(staging / _ARRIVING))
            fetch(staging).rename(new)
        finish(new)
        _put_in_place(new, destination)
    return progress.summary()


def _fetch(source: Source, files: Sequence[SourceFile], folder: Path, progress: Progress, retry: Retry) -> Path:
    """Below ``folder``, the folder that holds what there is to be served."""
    arrived, unpacked = folder / _ARRIVING, folder / "unpacked"
    download(source, files, arrived, progress, retry)
    if archive := lone_archive(files):
        _remove(unpacked)
        unpack(arrived / archive, unpacked / archive.parent)
        return unpacked
    # From here on the folder is no longer what the journal says.
    discard_journal(arrived)
    return arrived


def _make_room(destination: Path, files: Sequence[SourceFile], arrived: int) -> None:
    """A volume that is sized for one copy must also take the next: the copy to be replaced gives way first."""
    needed, free = sum(file.size for file in files), shutil.disk_usage(destination).free + arrived
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
    """Of the blocks on the disk: a file that is still arriving has its final size already."""
    return sum(512 * each.lstat().st_blocks for each in (path, *path.rglob("*")) if each.is_file())


@contextmanager
def _staging(destination: Path) -> Iterator[Path]:
    """What has arrived outlives a kill, and an error that may pass."""
    folder = destination / STAGING
    _remove_all_but_arriving(folder)
    try:
        folder.mkdir(exist_ok=True)
        yield folder
    except InitializerError as error:
        if not error.may_pass:
            _remove(folder)
        raise
    except BaseException:
        with uninterrupted():
            _remove(folder)
        raise
    with uninterrupted():
        _remove(folder)


def _remove_all_but_arriving(folder: Path) -> None:
    for entry in folder.iterdir() if folder.is_dir() else []:
        if not entry.name.startswith(_ARRIVING):
            _remove(entry)


def _put_in_place(staging: Path, destination: Path) -> None:
    """What an earlier run left under the same name makes room; other entries are not ours to touch."""
    old = staging.parent / "old"
    with uninterrupted():
        old.mkdir()
        there = {entry.name for entry in destination.iterdir()}
        for name in sorted(entry.name for entry in staging.iterdir()):
            if name in there:
                (destination / name).rename(old / name)
            (staging / name).rename(destination / name)


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
