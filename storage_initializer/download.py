"""Downloads the files of a source into a folder: several files, and several parts of a large file, at a time.

Each worker has one buffer and writes each part to its place in a file of the final size, so memory grows neither with
the files nor with their number. Parts that have arrived are in the journal: the next run continues after a kill.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock

from model_archive.text import format_size
from storage_initializer.checksums import Sum, checksum_of
from storage_initializer.errors import CopyError, ServerError, UnexpectedResponseError
from storage_initializer.journal import Journal, open_journal
from storage_initializer.limits import MAX_UNSIZED
from storage_initializer.progress import Progress
from storage_initializer.retry import Retry
from storage_initializer.sources import Checksum, Source, SourceFile

PART_BYTES = 16 << 20
_BUFFER_BYTES = 1 << 20
_WORKERS = 8
# How long stopped workers may take to end. A read is not interrupted, and ends by its timeout or with the process.
_GRACE_S = 2.0


@dataclass(frozen=True)
class Part:
    """``stop`` is 0 for a file whose size is not known."""

    number: int
    file: SourceFile
    start: int
    stop: int


class _Stopped(Exception):
    """Another worker failed, or the run was stopped."""


def download(source: Source, files: Sequence[SourceFile], folder: Path, *, progress: Progress, retry: Retry) -> None:
    """Download the files into ``folder``, which belongs to this transfer; parts of an earlier run are kept."""
    with open_journal(folder, source.identity, files) as journal:
        for parent in {folder / file.path.parent for file in files}:
            parent.mkdir(parents=True, exist_ok=True)
        _Download(source, files, folder, progress=progress, retry=retry, journal=journal).run()


def parts_of(number: int, file: SourceFile) -> list[Part]:
    """Return the parts of a file, at least one: an empty file has to be created as well."""
    if file.streamed:
        return [Part(number, file, 0, file.size)]
    starts = range(0, file.size, PART_BYTES) or [0]
    return [Part(number, file, start, min(start + PART_BYTES, file.size)) for start in starts]


class _Download:
    def __init__(
        self,
        source: Source,
        files: Sequence[SourceFile],
        folder: Path,
        *,
        progress: Progress,
        retry: Retry,
        journal: Journal,
    ) -> None:
        self._source = source
        self._folder = folder
        self._progress = progress
        self._retry = retry
        self._journal = journal
        self._parts = (part for number, file in enumerate(files) for part in parts_of(number, file))
        self._missing = {number: len(parts_of(number, file)) for number, file in enumerate(files)}
        self._lock = Lock()
        self._stop = Event()

    def run(self) -> None:
        workers = ThreadPoolExecutor(_WORKERS)
        working = [workers.submit(self._work) for _ in range(min(_WORKERS, sum(self._missing.values())))]
        try:
            done, _ = wait(working, return_when=FIRST_EXCEPTION)
        finally:
            self._stop.set()
            wait(working, _GRACE_S)
            workers.shutdown(wait=False)
        for worker in done:
            worker.result()

    def _work(self) -> None:
        buffer = memoryview(bytearray(_BUFFER_BYTES))
        with suppress(_Stopped):
            while part := self._next_part():
                found = self._receive_part(part, buffer)
                if self._is_last_of_its_file(part):
                    self._finish(part.file, found)

    def _next_part(self) -> Part | None:
        with self._lock:
            return None if self._stop.is_set() else next(self._parts, None)

    def _is_last_of_its_file(self, part: Part) -> bool:
        with self._lock:
            self._missing[part.number] -= 1
            return not self._missing[part.number]

    def _receive_part(self, part: Part, buffer: memoryview) -> Checksum | None:
        """Download a part; return its checksum if it is a whole file whose checksum the source reports."""
        with _target(self._folder / part.file.path, part.file.size) as target:
            if self._journal.has(part.number, part.start):
                self._progress.resume(part.stop - part.start)
                return None
            arrival = _Arrival(part, target)
            self._retry.run(lambda: self._receive(arrival, buffer))
            self._journal.record(part.number, part.start)
            return arrival.checksum

    def _receive(self, arrival: _Arrival, buffer: memoryview) -> None:
        """Receive a part, or the rest of one where the source can be read from its middle."""
        part = arrival.part
        if self._stop.is_set():
            raise _Stopped
        if part.file.streamed:
            self._progress.advance(-arrival.begin_anew())
        if arrival.position == part.stop and not part.file.streamed:
            return
        with self._source.open(part.file, arrival.position, part.stop) as content:
            if arrival.position == part.start and (algorithm := _algorithm(part)):
                arrival.sum_up(algorithm)
            # No more than was requested, even if a server sends more.
            while count := content.readinto(buffer[: arrival.wanted]):
                if self._stop.is_set():
                    raise _Stopped
                arrival.add(buffer[:count])
                self._progress.advance(count)
        arrival.check()

    def _finish(self, file: SourceFile, found: Checksum | None) -> None:
        path = self._folder / file.path
        if expected := file.checksum:
            found = found or checksum_of(path, expected.algorithm)
            if found != expected:
                raise CopyError(
                    f"{file.path} has the {found.algorithm} checksum {found.value} instead of {expected.value}; "
                    "copy it to the source again"
                )
        if file.executable:
            path.chmod(0o755)
        self._progress.finish(file)


class _Arrival:
    def __init__(self, part: Part, target: int) -> None:
        self.part = part
        self.position = part.start
        self._target = target
        self._sum: Sum | None = None

    @property
    def checksum(self) -> Checksum | None:
        return self._sum.checksum() if self._sum else None

    @property
    def wanted(self) -> int:
        """How many more bytes are accepted."""
        if self.part.stop or not self.part.file.streamed:
            return self.part.stop - self.position
        if self.position >= MAX_UNSIZED:
            raise UnexpectedResponseError(
                f"{self.part.file.path} has more than {format_size(MAX_UNSIZED)}, and its server does not "
                "report its length; serve it with a Content-Length"
            )
        return MAX_UNSIZED - self.position

    def sum_up(self, algorithm: str) -> None:
        """Compute a checksum from here on, the part's beginning."""
        self._sum = Sum(algorithm)

    def begin_anew(self) -> int:
        """Start again; return how many received bytes are discarded."""
        lost, self.position = self.position, 0
        os.ftruncate(self._target, 0)
        return lost

    def add(self, chunk: memoryview) -> None:
        written = 0
        while written < len(chunk):
            written += os.pwrite(self._target, chunk[written:], self.position + written)
        if self._sum:
            self._sum.add(chunk)
        self.position += len(chunk)

    def check(self) -> None:
        if self.position != self.part.stop and (self.part.stop or not self.part.file.streamed):
            raise ServerError(
                f"{self.part.file.path} ended after {self.position} of {self.part.stop} bytes; "
                "see whether it is still being written"
            )


def _algorithm(part: Part) -> str | None:
    """Return the checksum to compute while a part arrives, so that a file of one part is not read again."""
    whole = part.start == 0 and part.stop == part.file.size
    return part.file.checksum.algorithm if whole and part.file.checksum else None


@contextmanager
def _target(path: Path, size: int) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        # One that comes in one part has its size when that is there.
        if size > PART_BYTES and os.fstat(descriptor).st_size != size:
            os.ftruncate(descriptor, size)
        yield descriptor
    finally:
        os.close(descriptor)
