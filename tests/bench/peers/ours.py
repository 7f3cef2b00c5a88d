"""Our own servers, untouched: neither has a setting here that a user would have to find."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.peers.archives import model_folder
from tests.bench.peers.peer import NotThere, Place
from tests.bench.processes import Command, Server, free_port
from tests.bench.work import Question, Work

ROOT = Path(__file__).parents[3]
_FOLDERS = (
    "runtime-images/common/src",
    ".",
    "runtime-images/torchserve/src",
    "runtime-images/mar/src",
)  # of our packages
DEFAULT: Mapping[str, Any] = {"default": {}}


@dataclass(frozen=True)
class Adapter:
    """TorchServe behind our adapter."""

    name: str = "ours: adapter + TorchServe"
    batching: Mapping[str, int] = field(default_factory=dict)  # batchSize, maxBatchDelay

    def settings(self, work: Work, cores: int) -> Mapping[str, Any]:
        return DEFAULT

    def commands(self, place: Place, setting: Any) -> Sequence[Command]:
        folder = model_folder(place, _properties(place, self.batching))
        # Short, for the paths of TorchServe's sockets are built on it.
        work_dir = place.folder / "w"
        return [ours(place, "torchserve_adapter", f"--model-dir={folder}", f"--work-dir={work_dir}")]

    def question(self, work: Work, server: Server) -> Question:
        return work.v1()


@dataclass(frozen=True)
class MarRuntime:
    """The same archive without Java."""

    name: str = "ours: .mar runtime"
    batching: Mapping[str, int] = field(default_factory=dict)  # batchSize, maxBatchDelay

    def settings(self, work: Work, cores: int) -> Mapping[str, Any]:
        return DEFAULT

    def commands(self, place: Place, setting: Any) -> Sequence[Command]:
        return [ours(place, "mar_runtime", f"--model-dir={model_folder(place, _properties(place, self.batching))}")]

    def question(self, work: Work, server: Server) -> Question:
        return work.v1()


@dataclass(frozen=True)
class BareTorchScript:
    """The same runtime with a model.pt and nothing else."""

    name: str = "ours: bare TorchScript"

    def settings(self, work: Work, cores: int) -> Mapping[str, Any]:
        return DEFAULT if work.name == "mnist" else {}

    def commands(self, place: Place, setting: Any) -> Sequence[Command]:
        folder = place.folder / "model"
        folder.mkdir()
        shutil.copy(place.models / f"{place.work.name}.pt", folder / "model.pt")
        return [ours(place, "mar_runtime", f"--model-dir={folder}")]

    def question(self, work: Work, server: Server) -> Question:
        name = server.get("/v1/models")["models"][0]
        return work.bare(f"/v1/models/{name}:predict")


def _properties(place: Place, batching: Mapping[str, int]) -> dict[str, str]:
    """Nothing unless batching is told, which is so only where it is what is measured."""
    if not batching:
        return {}
    name = place.work.name
    entry = {"defaultVersion": True, "marName": f"{name}.mar", "minWorkers": 1, "maxWorkers": 1, **batching}
    return {"models": json.dumps({name: {"1.0": entry}})}


def ours(place: Place, module: str, *flags: str) -> Command:
    """One of our servers from this checkout; raises NotThere."""
    if not any((ROOT / folder / module / "__main__.py").exists() for folder in _FOLDERS):
        raise NotThere(f"this checkout has no {module}")
    return program(place, "-m", module, f"--http-port={place.port}", *flags)


def program(place: Place, *arguments: str | Path) -> Command:
    """Python of the project's environment, which finds the checkout's packages."""
    environment = place.environment(
        PYTHONPATH=sources(ROOT), GRPC_PORT=str(free_port()), TERMINATION_LOG=place.folder / "ended"
    )
    return Command((sys.executable, *arguments), environment)


def sources(root: Path) -> str:
    """PYTHONPATH of the checkout at `root`."""
    return ":".join(str(root / folder) for folder in _FOLDERS)
