"""The interface of a source: it lists its files and opens any part of them. Each backend is one kind of source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol, TypeVar

from model_archive.limits import MAX_NAME
from storage_initializer.errors import UnexpectedResponseError, UnsafeSourceError
from storage_initializer.limits import MAX_FILES

File = TypeVar("File")
# Up to an exbibyte.
_SIZE = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True)
class Checksum:
    """``algorithm`` is one of ``checksums``; ``value`` is in lower-case hexadecimal."""

    algorithm: str
    value: str


@dataclass(frozen=True)
class SourceFile:
    """A file of the source: its path below the destination, its size, and its version.

    ``version`` changes whenever the content does: an etag, a generation, a time. Empty where the source has none.
    A ``streamed`` file can only be read as a whole, and its size is 0 where the source does not report it. An ``exact``
    file is named by the URI itself, not found in a folder. The name of an ``untyped`` file does not show its type.
    """

    path: PurePosixPath
    size: int
    executable: bool = False
    version: str = ""
    checksum: Checksum | None = None
    streamed: bool = False
    exact: bool = False
    untyped: bool = False


def bounded(files: Iterable[File]) -> Iterator[File]:
    """Yield the files; raise UnsafeSourceError for more than MAX_FILES."""
    for number, file in enumerate(files):
        if number == MAX_FILES:
            raise UnsafeSourceError(
                f"there are more than {MAX_FILES:,} files in it; name the folder of the model alone"
            )
        yield file


def reported_size(text: str) -> int:
    if not _SIZE.fullmatch(text):
        raise UnexpectedResponseError(f"the server reports the size {text[:40]!r} of a file; see its log")
    return int(text)


def check_length(path: PurePosixPath) -> None:
    """Raise UnsafeSourceError for a name that is too long for a file system."""
    if any(len(part.encode(errors="surrogateescape")) > MAX_NAME for part in path.parts):
        raise UnsafeSourceError(f"{str(path)[:80]}… has a name of more than {MAX_NAME} bytes; rename it")


class Content(Protocol):
    def readinto(self, buffer: memoryview, /) -> int:
        """Fill the buffer or a part of it, and return how many bytes; 0 at the end."""


class Source(Protocol):
    """Used by several threads at once."""

    identity: str
    """Together with paths, sizes and versions of the files it identifies their content: the key of the cache."""

    def describe(self) -> str:
        """Return credentials, endpoint and region for the log, without secrets; may be empty."""

    def list_files(self) -> Sequence[SourceFile]:
        """Return every file, at least one."""

    def open(self, file: SourceFile, start: int, stop: int) -> AbstractContextManager[Content]:
        """Open the bytes from ``start`` to ``stop`` of the version that was listed, or raise CopyError."""
