"""A watch of models over scripted responses of TorchServe."""

from __future__ import annotations

import asyncio
import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
from prometheus_client import CollectorRegistry

from data_plane.batching.metrics import BatchMetricsRegistry
from data_plane.batching.sequences import SequenceLimits
from data_plane.errors import NotReady
from data_plane.model import Call, IndexEntry, Models
from torchserve_adapter.batching import BatchRequirements
from torchserve_adapter.client import TorchServeClient, TorchServeVersion
from torchserve_adapter.failure_reports import FailureReports
from torchserve_adapter.process import TorchServe, WorkerDeaths
from torchserve_adapter.served import ServedVersions
from torchserve_adapter.watch import ModelWatch
from torchserve_compat.frames import HandlerBatch, HandlerRequest, HandlerResponse, HandlerResult
from torchserve_compat.server.model import HandlerModel
from torchserve_compat.server.transport import OnPiece
from torchserve_compat.store.models import RequestedModel
from torchserve_compat.store.settings import BatchOptions

BERT = RequestedModel("bert", "bert.mar")
DIED = "2026-01-01 00:00:00,000 INFO    torchserve [W-9000-bert_1.0] Retry worker: 9000 in 1 seconds."
LATE = "2026-01-01 00:00:00,000 ERROR   torchserve [W-9000-bert_1.0] Number or consecutive unsuccessful inference 1"
ANSWERED = "bert 1.0 has answered"
KILLED = (
    "without a Python exception; if it was killed for memory, give it more, on a cluster by resources.limits.memory. "
    "Last problems"
)

Answer = tuple[TorchServeVersion, ...] | None
Step = Answer | str | int | Callable[[], None]


def version(
    workers: int,
    name: str = "1.0",
    *,
    max_workers: int = 1,
    batch_size: int = 1,
    sequences: SequenceLimits | None = None,
) -> TorchServeVersion:
    return TorchServeVersion(name, "bert.mar", workers, max_workers, batch_size, 120, 120, sequences=sequences)


READY = (version(1),)
LOADING = (version(0),)
UNKNOWN: Answer = ()


class FakeTorchServe:
    def __init__(self) -> None:
        self.now = 0.0
        self.deaths = WorkerDeaths()

    def last_problems(self) -> str:
        return "Last problems in its log: boom"


@dataclass
class FakeTransport:
    """A worker that answers at once."""

    on_response: Callable[[], None]
    given_up: bool = False

    async def send(self, batch: HandlerBatch, is_wanted: Callable[[], bool], on_piece: OnPiece) -> HandlerResult:
        if self.given_up:
            raise NotReady("no worker")
        self.on_response()
        return HandlerResult([HandlerResponse(b"answered") for _ in batch.requests], 0.0)

    def give_up(self) -> None:
        self.given_up = True


class ScriptedClient:
    """Gives its answers one by one; then the test is over. Among them: lines of the log, answers of the worker, seconds
    that pass, and what the test does."""

    def __init__(self, torchserve: FakeTorchServe, models: Models, script: Sequence[Step]) -> None:
        self._torchserve = torchserve
        self._script = iter(script)
        self._models = models
        self.transports: dict[str, FakeTransport] = {}
        self.seen: list[bool] = []
        self.index: list[IndexEntry] = []

    async def names(self) -> tuple[str, ...]:
        return ("bert",)

    async def describe(self, model: str) -> Answer:
        self.seen.append(self._models.ready)
        self.index = self._models.index()
        # The next look is due at once, whatever the pause.
        asyncio.get_running_loop().call_soon(self._torchserve.deaths.news.set)
        for step in self._script:
            if step == ANSWERED:
                self.transports["1.0"].on_response()
            elif isinstance(step, str):
                self._torchserve.deaths.feed(step)
            elif isinstance(step, int):
                self._torchserve.now += step
            elif callable(step):
                step()
            else:
                return step
        raise EOFError

    def transport(self, model: str, version: TorchServeVersion, on_response: Callable[[], None]) -> FakeTransport:
        return self.transports.setdefault(version.version, FakeTransport(on_response))


class Watched:
    """A watch over a script, and the models that it keeps."""

    def __init__(self, folder: Path, *script: Step, configured: bool = True, registering: bool = False) -> None:
        torchserve = FakeTorchServe()
        self.models = Models(["bert"] if configured else [])
        self.client = ScriptedClient(torchserve, self.models, script)
        client = cast(TorchServeClient, self.client)
        requirements = BatchRequirements(BatchOptions(), {}, {"bert.mar": {"batchSize": 6}})
        metrics = BatchMetricsRegistry(CollectorRegistry())
        self.served = ServedVersions(self.models, client, requirements, metrics=metrics, deaths=torchserve.deaths)
        self._watch = ModelWatch(
            [BERT] if configured else [], self.models,
            served=self.served, client=client, torchserve=cast(TorchServe, torchserve),
            reports=FailureReports(folder, torchserve.last_problems, installs=False), registering=registering,
            clock=lambda: torchserve.now,
        )  # fmt: skip

    async def run(self) -> None:
        with pytest.raises(EOFError):
            await self._watch.run()

    async def look(self) -> None:
        await self._watch.check()

    async def fail_to_unregister(self) -> None:
        with pytest.raises(NotReady):
            async with self._watch.retiring("bert"):
                raise NotReady("TorchServe")

    async def ask(self, deadline: float = math.inf) -> bytes:
        """What a client gets of the default version."""
        call = Call((), "id", lambda: False, deadline)
        answer = await self.model().queue.submit(HandlerRequest("id", (), []), 1, "raw", call)
        return answer.body

    def model(self, version: str | None = None) -> HandlerModel:
        return cast(HandlerModel, self.models.get("bert", version))


async def watch(tmp_path: Path, *script: Step) -> ScriptedClient:
    """What was seen of the model's readiness after each answer."""
    watched = Watched(tmp_path, *script)
    await watched.run()
    return watched.client


def failure(**fields: str | None) -> dict[str, str | None]:
    """What a worker leaves."""
    return {"model": "bert", "type": "", "message": "", "where": "", "missing_module": None, **fields}


def leave(folder: Path, report: dict[str, str | None], later_s: int = 0) -> Callable[[], None]:
    """Write the report, as if this many seconds later."""

    def write() -> None:
        file = folder / "bert.json"
        file.write_text(json.dumps(report))
        os.utime(file, times=(written := file.stat().st_mtime + later_s, written))

    return write


async def registered(tmp_path: Path, *script: Step) -> Watched:
    """A watch that has seen the script of a model that is none of the configuration's."""
    watched = Watched(tmp_path, *script, configured=False, registering=True)
    await watched.run()
    return watched
