"""The least that a server in Python can be: a yardstick for the machine, which nobody would put in front of users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.bench.environments import PROGRAMS
from tests.bench.peers.ours import DEFAULT, program
from tests.bench.peers.peer import ONE_THREAD, Place
from tests.bench.processes import Command, Server
from tests.bench.work import Question, Work


@dataclass(frozen=True)
class BareServer:
    """uvicorn, orjson and the model in one thread, with the libraries that our servers have."""

    name: str = "40 lines of uvicorn"

    def settings(self, work: Work, cores: int) -> Mapping[str, Any]:
        return DEFAULT if work.name == "mnist" else {}

    def commands(self, place: Place, setting: Any) -> Sequence[Command]:
        bare = program(place, PROGRAMS / "bare_server.py", str(place.port), place.work.name, place.models)
        return [Command(bare.argv, {**bare.environment, **ONE_THREAD})]

    def question(self, work: Work, server: Server) -> Question:
        return work.v1()
