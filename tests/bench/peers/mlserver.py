"""MLServer: in process, with and without its adaptive batching; it speaks v2."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.bench.peers.peer import ONE_THREAD, Place
from tests.bench.processes import Command, Server, free_port
from tests.bench.work import Question, Work


@dataclass(frozen=True)
class MLServer:
    name: str = "MLServer"

    def settings(self, work: Work, cores: int) -> Mapping[str, Any]:
        if cores > 1:
            return {"no batching": {}, "no batching, a worker a core": {"server": {"parallel_workers": cores}}}
        found: dict[str, Any] = {"no batching": {}, "batch 16, 5 ms": _batches(16, 0.005)}
        if work.name == "mnist":
            found["batch 32, 1 ms"] = _batches(32, 0.001)
        return found

    def commands(self, place: Place, setting: Any) -> Sequence[Command]:
        server = {
            "host": "127.0.0.1", "http_port": place.port, "grpc_port": free_port(), "metrics_port": free_port(),
            "debug": False, "gzip_enabled": False, "parallel_workers": 0, **setting.get("server", {}),
        }  # fmt: skip
        model = {
            "name": place.work.name,
            "implementation": "mlserver_runtime.Runtime",
            "parameters": {"uri": str(place.models)},
            **setting.get("model", {}),
        }
        (place.folder / "settings.json").write_text(json.dumps(server))
        (place.folder / "model-settings.json").write_text(json.dumps(model))
        argv = (place.python("mlserver").with_name("mlserver"), "start", place.folder)
        return [Command(argv, place.environment(**ONE_THREAD))]

    def question(self, work: Work, server: Server) -> Question:
        return work.v2()


def _batches(size: int, seconds: float) -> dict[str, Any]:
    return {"model": {"max_batch_size": size, "max_batch_time": seconds}}
