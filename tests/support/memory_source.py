"""A source in memory, with the lies and failures that a test asks for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from io import BytesIO
from pathlib import Path, PurePosixPath

from storage_initializer.retry import Retry
from storage_initializer.selection import FileSelection
from storage_initializer.sources import Checksum, Content, Source, SourceFile
from storage_initializer.transfer import move_into_place, places, stage

ONCE = Retry(attempts=1, chance=lambda: 0.0, wait=lambda seconds: None)


def bring_alone(source: Source, destination: Path, retry: Retry = ONCE) -> None:
    """All files of one source to its destination, whatever their layout."""
    (place,) = places([destination])
    staged = stage(source, place, select=FileSelection().of, finish=lambda folder: (), retry=retry, clock=lambda: 0.0)
    with staged, ExitStack() as undo:
        move_into_place(place, undo)
        undo.pop_all()


class MemorySource:
    """``cut`` is where every file ends too early; ``on_open`` is told of each part that is asked for."""

    identity = "memory"

    def __init__(
        self,
        contents: Mapping[str, bytes],
        *,
        cut: int | None = None,
        checksum: Checksum | None = None,
        failure: int = 0,
        version: str = "1",
        on_open: Callable[[str, int, int], None] = lambda path, start, stop: None,
    ) -> None:
        self._contents = contents
        self._cut = cut
        self._checksum = checksum
        self._failure = failure
        self._version = version
        self._on_open = on_open

    def describe(self) -> str:
        return "from memory"

    def list_files(self) -> Sequence[SourceFile]:
        return [
            SourceFile(PurePosixPath(path), len(content), version=self._version, checksum=self._checksum)
            for path, content in self._contents.items()
        ]

    @contextmanager
    def open(self, file: SourceFile, start: int, stop: int) -> Iterator[Content]:
        self._on_open(str(file.path), start, stop)
        if self._failure:
            raise OSError(self._failure, os.strerror(self._failure))
        yield BytesIO(self._contents[str(file.path)][: self._cut][start:stop])
