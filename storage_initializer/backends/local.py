"""Files and folders of this container's file system: ``file:///path``, ``/path``, and a mounted claim.

The source may be read-only, owned by root, and changed by others at any time. So links must not leave ``boundary``, and
a file that changes while it is read fails the copy.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import FileIO
from pathlib import Path, PurePosixPath

from storage_initializer.errors import (
    AccessDeniedError,
    CopyError,
    EmptySourceError,
    NestedPathsError,
    SourceNotFoundError,
    UnsafeSourceError,
)
from storage_initializer.limits import MAX_DEPTH
from storage_initializer.plan import Plan, Transfer
from storage_initializer.sources import Content, SourceFile, bounded
from storage_initializer.suggest import suggestion

# Made by mkfs at the root of an ext4 volume, and closed to everyone but root.
_NOT_CONTENT = "lost+found"


def open_source(transfer: Transfer, plan: Plan) -> LocalSource:  # noqa: ARG001
    root = Path(transfer.source.path)
    if not (root.is_absolute() or os.path.lexists(root)):
        raise SourceNotFoundError(
            f"it has no scheme, so it is a path below {Path.cwd()}, and {_missing(root)}; for another place, write "
            "pvc://CLAIM/PATH or file:///PATH"
        )
    return open_folder(root, boundary=root, destination=transfer.destination)


def open_folder(root: Path, *, boundary: Path, destination: Path) -> LocalSource:
    """Open a folder or one file. Links in it may lead anywhere inside ``boundary``."""
    with _reading(root):
        try:
            real = Path(os.path.realpath(root, strict=True))
        except (FileNotFoundError, NotADirectoryError):
            raise SourceNotFoundError(_missing(root)) from None
    target = destination.resolve()
    if real.is_relative_to(target) or target.is_relative_to(real):
        raise NestedPathsError(f"it overlaps with the destination {destination}; keep the two apart")
    return LocalSource(root, boundary)


class LocalSource:
    def __init__(self, root: Path, boundary: Path) -> None:
        self.identity = str(root)
        self._root = root
        self._base = root if root.is_dir() else root.parent
        self._boundary = boundary.resolve()
        self._inside = f"{str(self._boundary).rstrip('/')}/"

    def list_files(self) -> Sequence[SourceFile]:
        files = tuple(bounded(self._list(self._root, frozenset())))
        if not files:
            raise EmptySourceError("there is no file in it; put the model there first")
        return files

    @contextmanager
    def open(self, file: SourceFile, start: int, stop: int) -> Iterator[Content]:
        path = self._real_path(self._base / file.path)
        with self._open(path) as stream:
            if _version(stream) != file.version:
                raise _changed(file)
            stream.seek(start)
            yield _Span(stream, path, stop - start)
            # A file that somebody appends to may never end, and one that is cut ends early.
            if stream.tell() != stop or _version(stream) != file.version:
                raise _changed(file)

    def describe(self) -> str:
        return ""

    def _list(self, path: Path, ancestors: frozenset[Path]) -> Iterator[SourceFile]:
        real = self._real_path(path)
        with _reading(path):
            mode = path.stat().st_mode
            entries = sorted(path.iterdir()) if stat.S_ISDIR(mode) else []
        if stat.S_ISREG(mode):
            yield self._describe(path, real)
        elif not stat.S_ISDIR(mode):
            raise UnsafeSourceError(f"{self._name(path)} is neither a file nor a folder; remove it")
        elif real in ancestors:
            raise UnsafeSourceError(f"{self._name(path)} links back to a folder it is in; remove the link")
        elif len(ancestors) > MAX_DEPTH:
            raise UnsafeSourceError(f"{self._name(path)} lies in more than {MAX_DEPTH} folders; move it up")
        for entry in entries:
            if not (entry.name == _NOT_CONTENT and path == self._root):
                yield from self._list(entry, ancestors | {real})

    def _describe(self, path: Path, real: Path) -> SourceFile:
        """Describe a file. It is opened, so that a file that cannot be read is found before gigabytes are copied."""
        with self._open(real) as stream:
            status, version = os.fstat(stream.fileno()), _version(stream)
        relative = PurePosixPath(path.relative_to(self._base))
        executable = bool(status.st_mode & 0o111)
        return SourceFile(relative, status.st_size, executable, version, exact=path == self._root)

    def _real_path(self, path: Path) -> Path:
        """Return the path with every link resolved. Only this path is opened, so that no link can change meanwhile."""
        with _reading(path):
            try:
                real = Path(os.path.realpath(path, strict=True))
            except FileNotFoundError:
                raise SourceNotFoundError(f"{self._name(path)} {_why_gone(path)}; repair or remove it") from None
            except OSError as error:
                if error.errno == errno.ELOOP:
                    raise UnsafeSourceError(f"{self._name(path)} is a link to itself; remove it") from None
                raise
        if not real.is_relative_to(self._boundary):
            raise UnsafeSourceError(
                f"{self._name(path)} links to {real}, outside of the source; put a copy in the link's place"
            )
        return real

    def _open(self, path: Path) -> FileIO:
        """Open a file and check it once more: a link or pipe may have been put anywhere in its path."""
        with _reading(path):
            stream = FileIO(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC))
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode) or not self._is_inside(stream):
            stream.close()
            raise UnsafeSourceError(f"{path} became another file while it was opened; start again")
        return stream

    def _is_inside(self, stream: FileIO) -> bool:
        """Return whether the open file is inside the boundary, as far as /proc is available."""
        try:
            path = os.readlink(f"/proc/self/fd/{stream.fileno()}")  # noqa: PTH115 - twice for each file
        except FileNotFoundError:
            return True
        return f"{path}/".startswith(self._inside)

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self._base))


class _Span:
    """The next ``length`` bytes of a file."""

    def __init__(self, stream: FileIO, path: Path, length: int) -> None:
        self._stream = stream
        self._path = path
        self._left = length

    def readinto(self, buffer: memoryview, /) -> int:
        with _reading(self._path):
            count = self._stream.readinto(buffer[: self._left])
        self._left -= count
        return count


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except PermissionError as error:
        raise AccessDeniedError(_denied(path)) from error
    except OSError as error:
        raise CopyError(f"{path} cannot be read ({error.strerror}); check the volume") from error


def _denied(path: Path) -> str:
    try:
        status = path.stat()
        owned = f" (mode {stat.S_IMODE(status.st_mode):04o}, owner {status.st_uid}:{status.st_gid})"
    except OSError:
        owned = ""
    return f"{path}{owned} may not be read by user {os.geteuid()}; run chmod -R a+rX on the source"


def _missing(path: Path) -> str:
    """Name the first part of the path that does not exist, and what exists instead."""
    there = next(parent for parent in path.parents if parent.is_dir())
    name = path.relative_to(there).parts[0]
    if (there / name).exists():
        return f"{there / name} is a file, so nothing can be below it; end the path there"
    return f"there is no {name} in {there}; {suggestion(name, (entry.name for entry in there.iterdir()))}"


def _why_gone(path: Path) -> str:
    return f"links to {path.readlink()}, which is not there" if path.is_symlink() else "was deleted meanwhile"


def _version(stream: FileIO) -> str:
    status = os.fstat(stream.fileno())
    return f"{status.st_ino}-{status.st_size}-{status.st_mtime_ns}"


def _changed(file: SourceFile) -> CopyError:
    return CopyError(f"{file.path} changed while it was copied; start again when it is complete")
