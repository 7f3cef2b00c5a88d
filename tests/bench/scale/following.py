"""The lines of the API server's audit log as they are written, also when a full file is put aside for a new one."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO


class Following:
    """Reads on where it stopped the last time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._rest = b""

    def lines(self) -> Iterator[dict[str, Any]]:
        """The lines since the last call."""
        while True:
            if self._file is None:
                with contextlib.suppress(FileNotFoundError):
                    self._file = self._path.open("rb")
            if self._file is None:
                return
            replaced = self._is_replaced()  # looked up before the rest is read: nothing is written to it after that
            for line in self._file:
                self._rest += line
                if self._rest.endswith(b"\n"):
                    yield json.loads(self._rest)
                    self._rest = b""
            if not replaced:
                return
            self.close()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None

    def _is_replaced(self) -> bool:
        assert self._file is not None
        try:
            return os.fstat(self._file.fileno()).st_ino != self._path.stat().st_ino
        except FileNotFoundError:  # between two files
            return False
