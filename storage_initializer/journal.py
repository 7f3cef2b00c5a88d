"""Which parts have arrived, so that the next run continues after a kill.

Each part that was written has a line. That is enough after a kill, as the kernel keeps what was written. A crash of the
node may lose the part and not its line, so a journal from before the last boot is not used.
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
from uuid import uuid4

from storage_initializer.sources import SourceFile

_LINE = re.compile(rb"^(\d+) (\d+)\n", re.MULTILINE)
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Journal:
    def __init__(self, descriptor: int, known: frozenset[tuple[int, int]]) -> None:
        self._descriptor = descriptor
        self._known = known

    def has(self, file: int, start: int) -> bool:
        return (file, start) in self._known

    def record(self, file: int, start: int) -> None:
        """Write one line at once: safe from several threads, and a kill leaves at most a torn last line."""
        os.write(self._descriptor, f"{file} {start}\n".encode())


@contextmanager
def open_journal(folder: Path, identity: str, files: Sequence[SourceFile]) -> Iterator[Journal]:
    """Open the journal beside ``folder``, which is emptied unless it holds parts of these files."""
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
        yield Journal(descriptor, known or frozenset())
    finally:
        os.close(descriptor)


def discard_journal(folder: Path) -> None:
    _path_of(folder).unlink(missing_ok=True)


def _path_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.journal")


def _title(identity: str, files: Sequence[SourceFile]) -> bytes:
    listing = [_boot_id(), identity, *([str(file.path), file.size, file.version] for file in files)]
    return hashlib.sha256(json.dumps(listing).encode()).hexdigest().encode()


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        # Unknown: every run starts again.
        return str(uuid4())


def _read(path: Path, title: bytes) -> frozenset[tuple[int, int]] | None:
    """Return the parts that arrived, None where the journal is another transfer's."""
    if not path.is_file():
        return None
    content = path.read_bytes()
    if not content.startswith(title):
        return None
    return frozenset((int(file), int(start)) for file, start in _LINE.findall(content))
