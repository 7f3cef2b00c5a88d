"""A server with one setting, launched for one work: up, and answering rightly, for the length of a block."""

from __future__ import annotations

import contextlib
import logging
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.load import Load, press
from tests.bench.options import Options
from tests.bench.peers.peer import NotThere, Peer, Place
from tests.bench.processes import Cores, Server, ServerFailed, free_port, running
from tests.bench.work import Question, Work

log = logging.getLogger(__name__)

_WARM_UP_CLIENTS = 8


@dataclass(frozen=True)
class Launched:
    """A server that answers."""

    server: Server
    question: Question
    work: Work
    cores: Cores
    started: float  # on time.monotonic()'s clock

    def press(self, clients: int, seconds: int) -> Load:
        """Load it; on return it has nothing left to do, and still answers rightly."""
        load = press(self.server.port, self.question, clients, seconds, self.cores.load)
        self.server.wait_for(self.question, self.work)
        return load

    def warm_up(self, seconds: int) -> None:
        self.press(_WARM_UP_CLIENTS, seconds)


@contextlib.contextmanager
def launched(peer: Peer, work: Work, setting: Any, cores: Cores, options: Options) -> Iterator[Launched]:
    """Raises NotThere and ServerFailed."""
    # A short path: servers make sockets below it.
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        place = Place(work, free_port(), Path(folder), options)
        commands, started = peer.commands(place, setting), time.monotonic()
        with running(commands, place.port, cores.server, place.folder) as server:
            question = peer.question(work, server)
            server.wait_for(question, work)
            yield Launched(server, question, work, cores, started)


@contextlib.contextmanager
def attempt(what: str, notes: list[str]) -> Iterator[None]:
    """A server that is not there or fails ends the block, and is noted; the others are measured all the same."""
    log.info("%s", what)
    try:
        yield
    except (NotThere, ServerFailed) as error:
        log.warning("%s %s", what, error)
        notes.append(f"{what}: {error}")
