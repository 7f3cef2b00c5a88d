"""mosec: a front in Rust (hyper) and workers in Python, joined by a Unix socket."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.bench.environments import PROGRAMS
from tests.bench.peers.peer import ONE_THREAD, Place
from tests.bench.processes import Command, Server
from tests.bench.work import Question, Work


@dataclass(frozen=True)
class Mosec:
    name: str = "mosec"

    def settings(self, work: Work, cores: int) -> Mapping[str, Any]:
        # A millisecond is the least that a batch can wait for, and one request waits for it as well.
        batches = [(16, 1), (32, 1)] if work.name in ("mnist", "noop") and cores == 1 else [(16, 1)]
        found: dict[str, Any] = {"no batching": {}}
        for size, wait_ms in batches:
            found[f"batch {size}, {wait_ms} ms"] = {"max_batch_size": size, "max_wait_time": wait_ms}
        if cores > 1:
            found |= {f"{label}, a worker a core": {**setting, "num": cores} for label, setting in found.items()}
        return found

    def commands(self, place: Place, setting: Any) -> Sequence[Command]:
        argv = (
            place.python("mosec"), PROGRAMS / "mosec_server.py", place.work.name, place.models, json.dumps(setting),
            "--address=127.0.0.1", f"--port={place.port}", f"--path={place.folder / 'mosec'}", "--timeout=120000",
            "--max-request-size=20000000", "--log-level=error",
        )  # fmt: skip
        return [Command(argv, place.environment(**ONE_THREAD))]

    def question(self, work: Work, server: Server) -> Question:
        return work.v1()
