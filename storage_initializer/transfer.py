"""Copies sources to their destinations: all of them, verified, or nothing.

A destination is a mount point and cannot be renamed itself, so the files are staged in a hidden folder inside it. Once
the last source is complete, the entries are renamed one by one, and back again if one of them cannot be. A run that is
killed leaves the hidden folders, and in the worst case some of the entries in place, each complete. The next run keeps
the parts that had arrived if the source is still the same. Nothing is synced to disk: after a crash of its node a pod's
init containers run again, and then nothing is kept.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from model_archive.text import format_size
from storage_initializer.cache import NodeCache
from storage_initializer.download import download
from storage_initializer.errors import DestinationError, EmptySourceError, InitializerError, NoSpaceError
from storage_initializer.journal import discard_journal
from storage_initializer.kinds import lone_archive, suffix_of
from storage_initializer.private import is_private
from storage_initializer.progress import Clock, Progress
from storage_initializer.retry import Retry
from storage_initializer.sources import Source, SourceFile
from storage_initializer.termination import uninterrupted
from storage_initializer.unpack import unpack

log = logging.getLogger(__name__)

STAGING = ".storage-initializer"
_STAGED = re.compile(rf"{re.escape(STAGING)}(-\d+)?")
_ARRIVING = "arriving"

Select = Callable[[Sequence[SourceFile]], Sequence[SourceFile]]
"""Returns which of the source's files are wanted."""
Finish = Callable[[Path], Sequence[str]]
"""Returns warnings about the staged folder; raises if it must not be moved into place."""


@dataclass(frozen=True)
class StagedDestination:
    """A destination, and the folder on the same file system where its files are staged."""

    destination: Path
    staging: Path


@dataclass(frozen=True)
class StagedSource:
    """A source's files, complete and checked, in the folder ``new`` of the place's staging folder."""

    place: StagedDestination
    summary: str
    warnings: Sequence[str] = ()


def places(destinations: Sequence[Path]) -> list[StagedDestination]:
    """Return where to stage. A destination inside another one is staged in the outer, whose files may replace it."""
    for destination in destinations:
        with _writing(destination):
            destination.mkdir(parents=True, exist_ok=True)
    found: list[StagedDestination] = []
    for destination in destinations:
        outer = min(filter(lambda other: _holds(other, destination), destinations), key=lambda path: len(path.parts))
        number = sum(place.staging.parent == outer for place in found)
        found.append(StagedDestination(destination, outer / (f"{STAGING}-{number}" if number else STAGING)))
    return found


@contextmanager
def stage(
    source: Source,
    place: StagedDestination,
    *,
    select: Select,
    finish: Finish,
    retry: Retry,
    clock: Clock,
    cache: NodeCache | None = None,
) -> Iterator[StagedSource]:
    """Stage a source. Its files exist in the block, in which they are moved into place."""
    files = select(_without_leftovers(retry.run(source.list_files)))
    with _writing(place.destination), _staging(place.staging) as staging:
        new = staging / "new"
        progress = Progress(len(files), sum(file.size for file in files), clock)

        def fetch(folder: Path) -> Path:
            return _fetch(source, files, folder, progress=progress, retry=retry)

        if cache and cache.provide(source.identity, files, fetch, target=new):
            progress.reuse_rest()
        else:
            progress.begin_anew()
            _make_room(place.destination, files, _size_of(staging / _ARRIVING))
            fetch(staging).rename(new)
        warnings = finish(new)
        yield StagedSource(place, progress.summary(), warnings)


def move_into_place(place: StagedDestination, undo: ExitStack) -> None:
    """Move the files into place. Entries of the same names are replaced; others stay."""
    new, old = place.staging / "new", place.staging / "old"
    with _writing(place.destination):
        old.mkdir()
        place.destination.mkdir(parents=True, exist_ok=True)
        there = {entry.name for entry in place.destination.iterdir()}
        for name in sorted(entry.name for entry in new.iterdir()):
            if _STAGED.fullmatch(name):  # in an archive
                log.warning("%s is left out: the storage-initializer's own folder has this name", name)
                continue
            if name in there:
                _move(place.destination / name, old / name, undo)
            _move(new / name, place.destination / name, undo)


def _without_leftovers(files: Sequence[SourceFile]) -> Sequence[SourceFile]:
    """Leave out what a run that was killed has left in the source, once its destination; raises EmptySourceError."""
    kept = [file for file in files if not _STAGED.fullmatch(file.path.parts[0])]
    if left := len(files) - len(kept):
        what = f"{left} {'file' if left == 1 else 'files'} below {STAGING}, the storage-initializer's own folder"
        if not kept:
            raise EmptySourceError(f"there is nothing in it but {what}; put the model there")
        log.warning("left out: %s", what)
    return kept


def _fetch(source: Source, files: Sequence[SourceFile], folder: Path, *, progress: Progress, retry: Retry) -> Path:
    """Download below ``folder``; return the folder with the files to serve."""
    arrived, unpacked = folder / _ARRIVING, folder / "unpacked"
    download(source, files, arrived, progress=progress, retry=retry)
    # Empty files are not a model, and do not count beside an archive.
    names = {file.path: _typed(arrived, file) for file in files if _has_content(arrived, file)}
    if not names:
        raise EmptySourceError("there is nothing in its files (0 bytes); put the model there again")
    if archive := lone_archive(names):
        _remove(unpacked)
        unpack(arrived / archive, unpacked / archive.parent)
        return unpacked
    # From here on the folder is no longer what the journal says.
    discard_journal(arrived)
    for path, name in names.items():
        if path != name:
            log.info("%s is called %s here, for what it holds", path, name)
            (arrived / path).rename(arrived / name)
    return arrived


def _has_content(folder: Path, file: SourceFile) -> bool:
    return bool(file.size or (folder / file.path).stat().st_size)


def _typed(folder: Path, file: SourceFile) -> PurePosixPath:
    """Return the file's path, with a suffix for its type if its name has none."""
    suffix = suffix_of(folder / file.path) if file.untyped else ""
    return file.path.with_name(f"{file.path.name}{suffix}")


def _make_room(destination: Path, files: Sequence[SourceFile], arrived: int) -> None:
    """Check that there is space. In a volume with space for one copy, the copy to be replaced is removed first."""
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
    """Return the size on the disk: a file that is still arriving has its final length already."""
    return sum(512 * each.lstat().st_blocks for each in (path, *path.rglob("*")) if each.is_file())


def _holds(outer: Path, inner: Path) -> bool:
    return inner.is_relative_to(outer) and inner.stat().st_dev == outer.stat().st_dev


@contextmanager
def _staging(folder: Path) -> Iterator[Path]:
    """Provide the staging folder. What has arrived is kept after a kill, and after an error that may pass."""
    if os.path.lexists(folder) and not is_private(folder.lstat()):
        _remove(folder)
    _remove_all_but_arriving(folder)
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        yield folder
    except InitializerError as error:
        if not error.may_pass:
            _remove(folder)
        _remove_all_but_arriving(folder)
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
    with suppress(OSError):
        # Only where nothing has arrived.
        folder.rmdir()


def _move(path: Path, target: Path, undo: ExitStack) -> None:
    path.rename(target)
    undo.callback(target.rename, path)


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
