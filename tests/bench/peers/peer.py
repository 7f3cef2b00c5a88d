"""What every server brings: its settings, the commands that start it, the request that it is asked."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tests.bench import environments
from tests.bench.options import Options
from tests.bench.processes import Command, Server
from tests.bench.work import Question, Work

# For peers: a network this small is slower on two threads, and every server here has a worker for each core to try.
ONE_THREAD = {"OMP_NUM_THREADS": "1"}


class NotThere(Exception):
    """This checkout does not have that server."""


@dataclass(frozen=True)
class Place:
    """Where a server is started: its port and a folder of its own, and the work that it is for."""

    work: Work
    port: int
    folder: Path
    options: Options

    def python(self, peer: str) -> Path:
        return environments.python(peer, self.options)

    @property
    def models(self) -> Path:
        return environments.models(self.options)

    def environment(self, **more: str | Path) -> dict[str, str]:
        """What every process gets; nothing of it is written outside the folder."""
        around = {"PATH": self.options.environment.get("PATH", os.defpath), "HOME": self.folder, "TMPDIR": self.folder,
                  "TEMP": self.folder, "PYTHONPATH": environments.PROGRAMS}  # fmt: skip
        return {name: str(value) for name, value in {**around, **more}.items()}


class Peer(Protocol):
    """A server. Its settings are tried one after another, and the best of them is what it is compared by."""

    @property
    def name(self) -> str: ...

    def settings(self, work: Work, cores: int) -> Mapping[str, Any]:
        """Settings by what they are called; none where the server cannot do this work."""
        ...

    def commands(self, place: Place, setting: Any) -> Sequence[Command]:
        """How to start it; raises NotThere."""
        ...

    def question(self, work: Work, server: Server) -> Question:
        """What to ask it; the server is up, or on its way."""
        ...
