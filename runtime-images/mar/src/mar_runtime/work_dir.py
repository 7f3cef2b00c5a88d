"""The folder that the server writes to: there, writable, and no other server's at the same time."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from transformer_sdk.model_store.errors import StartError


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """The folder is this process' own while the block lasts; raises StartError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise StartError(f"{folder} cannot be written to: {error.strerror}; choose another by --work-dir.") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StartError(f"{folder} is in use by another server; choose another by --work-dir.") from None
        yield
