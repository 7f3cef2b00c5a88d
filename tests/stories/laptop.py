"""A story by `isvc run`."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.stories.story import Story

_ISVC = Path(sys.executable).with_name("isvc")
_SETTLED = "Ctrl-C stops it."  # all services are ready, or have failed
_MANAGEMENT = re.compile(r"models can be registered at (http://127\.0\.0\.1:\d+)")
_STOP_S = 120.0


class NotServed(Exception):
    """`isvc run` has ended by itself; it has said why."""


@dataclass(frozen=True)
class Laptop:
    """A run: what it has announced, and what the processes have written so far."""

    announced: str
    log: list[str]


@contextlib.contextmanager
def served(story: Story, *arguments: str, beside: Sequence[Path] = ()) -> Iterator[Laptop]:
    """The story's files, unchanged, and others ``beside`` them; ``arguments`` are further ones of `isvc run`.

    Raises NotServed.
    """
    images = [f"--image={image}={sys.executable} {program}" for image, program in story.images.items()]
    with (
        _together([*(service.file for service in story.services), *beside]) as file,
        subprocess.Popen(
            [_ISVC, "run", file, *images, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process,
    ):
        log: list[str] = []
        reading = threading.Thread(target=_read, args=(process, log))
        reading.start()
        try:
            yield Laptop(_read_announced(process), log)
        finally:
            process.terminate()
            process.wait(_STOP_S)
            reading.join()


def volumes(story: Story) -> list[str]:
    """Flags of `isvc run` that name a folder for each claim; it is made if it is not there."""
    return [f"--pvc={claim}={content()}" for claim, content in story.claims.items()]


def management_of(log: str) -> str | None:
    """Where TorchServe's management API is, by the server's log."""
    found = _MANAGEMENT.search(log)
    return found[1] if found else None


@contextlib.contextmanager
def _together(files: Sequence[Path]) -> Iterator[Path]:
    """One file, as `isvc run` takes no more."""
    if len(files) == 1:
        yield files[0]
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "services.yaml")
        file.write_text("\n---\n".join(file.read_text() for file in files))
        yield file


def _read(process: subprocess.Popen[str], log: list[str]) -> None:
    for line in process.stderr or ():
        sys.stderr.write(line)
        log.append(line)


def _read_announced(process: subprocess.Popen[str]) -> str:
    read = ""
    for line in process.stdout or ():
        read += line
        if _SETTLED in line:
            return read
    raise NotServed(read)
