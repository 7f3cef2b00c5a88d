"""PyTriton: Triton's server in C++, and the model in a Python process behind it; it speaks v2."""

from __future__ import annotations

import json
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.bench.environments import PROGRAMS
from tests.bench.peers.peer import ONE_THREAD, Place
from tests.bench.processes import Command, Server
from tests.bench.work import Question, Work


@dataclass(frozen=True)
class PyTriton:
    name: str = "PyTriton"

    def settings(self, work: Work, cores: int) -> Mapping[str, Any]:
        # Triton's batches take what waits; a delay is waited for by one client as well.
        batches: dict[str, Any] = {"batch 32": {}}
        if work.name in ("mnist", "noop"):
            batches["batch 32, 1 ms"] = {"delay_us": 1000}
        # The store hands tensors over in shared memory, which takes longer than to copy small ones.
        found = {f"{label}, no tensor store": {**batch, "tensor_store": False} for label, batch in batches.items()}
        found["batch 32"] = {}
        if cores > 1:
            found |= {f"{label}, an instance a core": {**batch, "instances": cores} for label, batch in found.items()}
        return found

    def commands(self, place: Place, setting: Any) -> Sequence[Command]:
        argv = (
            place.python("pytriton"), PROGRAMS / "pytriton_server.py", place.work.name, place.models, str(place.port),
            json.dumps({"instances": 1, "delay_us": 0, **setting}),
        )  # fmt: skip
        # A process of Triton's embeds Python: of the same version as its standard library, not the system's.
        libraries = sysconfig.get_config_var("LIBDIR")
        store = {} if setting.get("tensor_store", True) else {"PYTRITON_NO_TENSORSTORE": "1"}
        return [Command(argv, place.environment(LD_LIBRARY_PATH=libraries, **store, **ONE_THREAD))]

    def question(self, work: Work, server: Server) -> Question:
        shape = work.shape if len(work.shape) > 1 else (1, *work.shape)
        return work.v2(shape)
