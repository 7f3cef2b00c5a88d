"""Pods of one node that want a model at the same time: processes that share a cache, each doing what it is told."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, Self

from storage_initializer.cache import NodeCache
from storage_initializer.errors import Termination
from storage_initializer.sources import SourceFile
from storage_initializer.termination import termination_raises

FILES = {"config/config.properties": b"load_models=all\n", "model-store/bert.mar": bytes(range(256)) * 1024}
LISTING = tuple(SourceFile(PurePosixPath(name), len(content), version="v1") for name, content in FILES.items())
_SPAWN = multiprocessing.get_context("spawn")
_TIMEOUT_S = 60
_SHARED = f"from the node's cache: {len(FILES)} linked"


class Pod:
    """Asks the cache for ``FILES``. It says what it logs, ``filling`` when it is to download, and how it ended; a
    download waits for ``go``. That files were linked goes without saying."""

    def __init__(self, cache: NodeCache, target: Path) -> None:
        self._connection, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_run, args=(cache, target, theirs), daemon=True)
        self.target = target

    def __enter__(self) -> Self:
        self._process.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def hears(self) -> str:
        """The next thing it says."""
        assert self._connection.poll(_TIMEOUT_S), "it says nothing"
        said = str(self._connection.recv())
        return self.hears() if said == _SHARED else said

    def go(self) -> None:
        self._connection.send("go")

    def terminate(self) -> None:
        os.kill(self._process.pid or 0, signal.SIGTERM)

    def kill(self) -> None:
        self._process.kill()
        self._process.join()


def write_files(folder: Path, files: dict[str, bytes] = FILES) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def left_in(work: Path) -> Sequence[str]:
    return sorted(str(path.relative_to(work)) for path in work.rglob("*") if path.is_file())


class _Telling(logging.Handler):
    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection

    def emit(self, record: logging.LogRecord) -> None:
        self._connection.send(record.getMessage())


def _run(cache: NodeCache, target: Path, connection: Connection) -> None:
    log = logging.getLogger("storage_initializer")
    log.addHandler(_Telling(connection))
    log.setLevel(logging.INFO)

    def fill(work: Path) -> Path:
        new = work / "new"
        found = left_in(new)
        new.mkdir(parents=True, exist_ok=True)
        (new / "first-part").write_bytes(b"")
        connection.send(f"filling {found}")
        _wait_for_go(connection)
        (new / "first-part").unlink()
        return write_files(new)

    try:
        with termination_raises():
            connection.send(f"ended with {cache.provide('s3://models/bert', LISTING, fill, target=target)}")
    except Termination as stopped:
        connection.send(str(stopped))


def _wait_for_go(connection: Connection) -> Any:
    return connection.recv()
