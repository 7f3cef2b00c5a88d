"""The initializer on a real file system, run in this process and looked at from outside: code, log, reason."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import javaproperties  # noqa: F401 - before user 1000 would have to read it
import pytest

import storage_initializer.backends.pvc  # noqa: F401 - likewise
from storage_initializer.cli import main


@dataclass(frozen=True)
class Outcome:
    exit_code: int
    log: list[str]
    reason: str


Initialize = Callable[..., Outcome]


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A folder that every user may write to, which pytest's own are not."""
    folder = Path(tempfile.mkdtemp(prefix="storage-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def initialize(open_path: Path, capsys: pytest.CaptureFixture[str]) -> Initialize:
    return initializer(open_path, capsys)


def initializer(folder: Path, capsys: pytest.CaptureFixture[str]) -> Initialize:
    """``initialize(*arguments, **environment)``; the reason is what stderr and the termination log agree on.

    ``folder`` is for the termination log.
    """
    termination_log = folder / "termination-log"
    termination_log.touch()
    termination_log.chmod(0o666)

    def run(*arguments: object, **environment: str) -> Outcome:
        termination_log.write_text("")
        exit_code = main(
            [str(argument) for argument in arguments], {"TERMINATION_LOG": str(termination_log), **environment}
        )
        output, reason = capsys.readouterr(), termination_log.read_text(encoding="utf-8")
        assert output.err == (f"{reason}\n" if exit_code else "")
        return Outcome(exit_code, output.out.splitlines(), reason)

    return run


@contextmanager
def ordinary_user() -> Iterator[int]:
    """Root may read everything; inside, root is user 1000 and sees what a pod sees."""
    if os.geteuid() != 0:
        yield os.geteuid()
        return
    os.setegid(1000)
    os.seteuid(1000)
    try:
        yield 1000
    finally:
        os.seteuid(0)
        os.setegid(0)
