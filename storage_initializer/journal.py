"""What has arrived, so that a run that was killed goes on where it was.

A line for each part that is on the disk, with its CRC-32: after a crash of the node the journal may have been
written and the part not, so the next run reads back what the journal claims.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from storage_initializer.backends import SourceFile


_LINE = re.compile(rb"^(\d+) (\d+) (\d+)\n", re.MULTILINE)


class Journal:
    def __init__(self, descriptor: int, known: dict[tuple[int, int], int]) -> None:
        self._descriptor = descriptor
        self._known = known

    def recorded(self, file: int, start: int) -> int | None:
        """The CRC-32 of a part that has arrived in an earlier run."""
        return self._known.get((file, start))

    def record(self, file: int, start: int, crc: int) -> None:
        """One write of one line: several threads may, and a kill leaves at most a torn last line."""
        os.write(self._descriptor, f"{file} {start} {crc}\n".encode())


@contextmanager
def open_journal(folder: Path, identity: str, files: Sequence[SourceFile]) -> Iterator[Journal]:
    """Beside ``folder``, which is emptied where it holds anything else than a part of these files."""
    path, title = _path_of(folder), _title(identity, files)
    known = _read(path, title) if folder.is_dir() else None
    if known is None:
        shutil.rmtree(folder, ignore_errors=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(title)
    folder.mkdir(exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        # Ends the title, or the line that a kill has torn.
        os.write(descriptor, b"\n")
        yield Journal(descriptor, known or {})
    finally:
        os.close(descriptor)


def discard_journal(folder: Path) -> None:
    _path_of(folder).unlink(missing_ok=True)


def _path_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.journal")


def _title(identity: str, files: Sequence[SourceFile]) -> bytes:
    listing = [identity, *([str(file.path), file.size, file.version] for file in files)]
    return hashlib.sha256(json.dumps(listing).encode()).hexdigest().encode()


def _read(path: Path, title: bytes) -> dict[tuple[int, int], int] | None:
    """None where the journal is another transfer's."""
    if not path.is_file():
        return None
    content = path.read_bytes()
    if not content.startswith(title):
        return None
    return {(int(file), int(start)): int(crc) for file, start, crc in _LINE.findall(content)}
