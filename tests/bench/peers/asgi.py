"""A model that does nothing, behind a bare ASGI application (the ceiling of HTTP in Python) and our HTTP layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.bench.environments import PROGRAMS
from tests.bench.peers.ours import program
from tests.bench.peers.peer import Place
from tests.bench.processes import Command, Server
from tests.bench.work import Question, Work


@dataclass(frozen=True)
class AsgiEcho:
    name: str = "bare ASGI echo"

    def settings(self, work: Work, cores: int) -> Mapping[str, Any]:
        return {"uvloop, httptools": {}}

    def commands(self, place: Place, setting: Any) -> Sequence[Command]:
        argv = (
            place.python("asgi"), "-m", "uvicorn", "asgi_echo:app", f"--port={place.port}", "--loop=uvloop",
            "--http=httptools", "--ws=none", "--lifespan=off", "--interface=asgi3", "--no-access-log",
            "--log-level=warning",
        )  # fmt: skip
        return [Command(argv, place.environment())]

    def question(self, work: Work, server: Server) -> Question:
        return work.v1()


@dataclass(frozen=True)
class Waiting:
    """A server whose times are known."""

    name: str = "a server that waits 20 ms, each tenth time 100 ms"

    def settings(self, work: Work, cores: int) -> Mapping[str, Any]:
        return {"default": {}}

    def commands(self, place: Place, setting: Any) -> Sequence[Command]:
        return [program(place, PROGRAMS / "waiting_server.py", str(place.port))]

    def question(self, work: Work, server: Server) -> Question:
        return work.v1()


@dataclass(frozen=True)
class HttpLayer:
    name: str = "ours: HTTP layer"

    def settings(self, work: Work, cores: int) -> Mapping[str, Any]:
        return {"default": {}}

    def commands(self, place: Place, setting: Any) -> Sequence[Command]:
        return [program(place, PROGRAMS / "noop_server.py", str(place.port))]

    def question(self, work: Work, server: Server) -> Question:
        return work.v1("/v1/models/noop:predict")
