"""LitServe: one FastAPI process in front of worker processes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.bench.environments import PROGRAMS
from tests.bench.peers.peer import ONE_THREAD, Place
from tests.bench.processes import Command, Server
from tests.bench.work import Question, Work

_FAST = {"fast_queue": True}


@dataclass(frozen=True)
class LitServe:
    name: str = "LitServe"

    def settings(self, work: Work, cores: int) -> Mapping[str, Any]:
        if cores > 1:
            return {"no batching": {}, "no batching, a worker a core": {"server": {"workers_per_device": cores}}}
        found: dict[str, Any] = {"no batching": {}, "batch 16, 2 ms": _batches(16, 0.002)}
        if work.name == "mnist":
            found["no batching, fast queue"] = {"server": _FAST}
            found["batch 8, 1 ms, fast queue"] = {**_batches(8, 0.001), "server": _FAST}
        return found

    def commands(self, place: Place, setting: Any) -> Sequence[Command]:
        argv = (
            place.python("litserve"), PROGRAMS / "litserve_server.py", place.work.name, place.models, str(place.port),
            json.dumps(setting),
        )  # fmt: skip
        return [Command(argv, place.environment(**ONE_THREAD))]

    def question(self, work: Work, server: Server) -> Question:
        return work.v1()


def _batches(size: int, seconds: float) -> dict[str, Any]:
    return {"api": {"max_batch_size": size, "batch_timeout": seconds}}
