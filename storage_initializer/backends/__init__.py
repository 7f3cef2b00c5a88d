"""One module for each kind of source. A backend lists what there is and delivers one file at a time;
staging, verification, layout and progress are the same for all and live in ``transfer``.

A backend module has ``open_source(transfer, pvc_root) -> Source`` and is imported on first use, by ``registry``:
what one kind of source needs, the others never load.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import BinaryIO, Protocol

Report = Callable[[int], None]
"""Told the number of bytes that have just arrived."""


@dataclass(frozen=True)
class SourceFile:
    """A file of the source: its path below the destination, and how long it must be."""

    path: PurePosixPath
    size: int
    executable: bool = False


class Source(Protocol):
    def list_files(self) -> Sequence[SourceFile]:
        """Everything to bring, at least one file."""

    def fetch(self, file: SourceFile, target: BinaryIO, report: Report) -> int:
        """Write the file's content to ``target``; return the CRC-32 of what was received."""
