"""What a command sends to a server, read from a file or the standard input: never more than it may be."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from isvc.run.errors import UnusableInput


def read_body(path: str, most: int) -> bytes:
    """Return the content of a file; raises UnusableInput for one that cannot be read, or has more than ``most``."""
    try:
        with Path(path).open("rb") as stream:
            return read_stream(stream, path, most)
    except OSError as error:
        raise UnusableInput(f"{path} cannot be read: {error.strerror}") from error


def read_stream(stream: BinaryIO, name: str, most: int) -> bytes:
    """Return what is left of a stream; raises UnusableInput if that is more than ``most``."""
    content = stream.read(most + 1)
    if len(content) > most:
        raise UnusableInput(f"{name} has more than {most:,} bytes; send less")
    return content
