"""One module for each kind of source. A backend lists what there is and opens any part of it;
staging, concurrency, retries, verification, layout and progress are the same for all and live in ``transfer`` and
``download``.

A backend module has ``open_source(transfer, plan) -> Source`` and is imported on first use, by ``registry``:
what one kind of source needs, the others never load.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol, TypeVar

from model_archive.limits import MAX_NAME
from storage_initializer.errors import UnexpectedAnswerError, UnsafeSourceError
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
    """A file of the source: its path below the destination, how long it must be, and what tells its content apart.

    ``version`` changes whenever the content does: an etag, a generation, a time. Empty where the source has none.
    A ``streamed`` file can only be read as a whole, and its size is 0 where the source does not tell it. An ``exact``
    one is what the URI itself names, not one of a folder. Of an ``untyped`` one the name does not tell what it is.
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
    """The same, as long as they are not too many to be a model."""
    for number, file in enumerate(files):
        if number == MAX_FILES:
            raise UnsafeSourceError(
                f"there are more than {MAX_FILES:,} files in it; name the folder of the model alone"
            )
        yield file


def size_told(text: str) -> int:
    """A file's size in bytes, as a server tells it."""
    if not _SIZE.fullmatch(text):
        raise UnexpectedAnswerError(f"the server tells the size {text[:40]!r} of a file; see its log")
    return int(text)


def check_length(path: PurePosixPath) -> None:
    """That the file system takes it: a store's names may be longer."""
    if any(len(part.encode(errors="surrogateescape")) > MAX_NAME for part in path.parts):
        raise UnsafeSourceError(f"{str(path)[:80]}… has a name of more than {MAX_NAME} bytes; rename it")


class Content(Protocol):
    def readinto(self, buffer: memoryview, /) -> int:
        """Fills the buffer, or a part of it; 0 at the end."""


class Source(Protocol):
    """Used by several threads at once."""

    identity: str
    """With paths, sizes and versions of the files, it stands for their content: the key of a cache."""
    read_back: bool
    """Whether copies are read back from the disk, as nothing else tells whether they are right."""

    def describe(self) -> str:
        """For the log: which credentials, endpoint and region. Never a secret. Empty where there is nothing to say."""

    def list_files(self) -> Sequence[SourceFile]:
        """Everything to bring, at least one file."""

    def open(self, file: SourceFile, start: int, stop: int) -> AbstractContextManager[Content]:
        """The bytes from ``start`` to ``stop`` of the very version that was listed, or an error."""

    def checksum(self, file: SourceFile) -> Checksum | None:
        """Of the whole file, where the source tells one. Asked once the file has arrived."""

    def close(self) -> None:
        """Wakes up who still reads, with an error, as does whoever asks for more."""

    def reopen(self) -> None:
        """After ``close``: from now on it may be read again."""
