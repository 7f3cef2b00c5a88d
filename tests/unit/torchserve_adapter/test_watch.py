"""When a model is ready, which versions it has, and when waiting ends, on scripted answers of TorchServe."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from torchserve_adapter.batching import Wishes
from torchserve_adapter.client import TorchServeClient, Version
from torchserve_adapter.process import TorchServe, WorkerDeaths
from torchserve_adapter.served import ServedVersions
from torchserve_adapter.watch import ModelWatch
from transformer_sdk.batching.metrics import BatchMetricsRegistry
from transformer_sdk.handler.model import HandlerModel
from transformer_sdk.model import IndexEntry, Models
from transformer_sdk.model_store.errors import ModelFailed
from transformer_sdk.model_store.models import Model
from transformer_sdk.model_store.settings import BatchOptions

BERT = Model("bert", "bert.mar")
DIED = "2026-01-01 00:00:00,000 INFO    torchserve [W-9000-bert_1.0] Retry worker: 9000 in 1 seconds."

Answer = tuple[Version, ...] | None
Step = Answer | str | int


def version(workers: int, name: str = "1.0", *, max_workers: int = 1, batch_size: int = 1) -> Version:
    return Version(name, "bert.mar", workers, max_workers, batch_size, 120, 120)


READY = (version(1),)
LOADING = (version(0),)
UNKNOWN: Answer = ()


class FakeTorchServe:
    def __init__(self) -> None:
        self.now = 0.0
        self.deaths = WorkerDeaths(lambda: self.now)

    def last_problems(self) -> str:
        return "Last problems in its log: boom"


class ScriptedClient:
    """Gives its answers one by one; then the test is over. Among them: lines of the log, and minutes that pass."""

    def __init__(self, torchserve: FakeTorchServe, models: Models, script: Sequence[Step]) -> None:
        self._torchserve = torchserve
        self._script = iter(script)
        self._models = models
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
            if isinstance(step, str):
                self._torchserve.deaths.feed(step)
            elif isinstance(step, int):
                self._torchserve.now += 60 * step
            else:
                return step
        raise EOFError

    def transport(self, model: str, version: Version) -> Any:
        return None  # nothing is sent here


class Watched:
    """A watch over a script, and the models that it keeps."""

    def __init__(self, folder: Path, *script: Step, configured: bool = True, registering: bool = False) -> None:
        torchserve = FakeTorchServe()
        self.models = Models(["bert"] if configured else [])
        self.client = ScriptedClient(torchserve, self.models, script)
        client = cast(TorchServeClient, self.client)
        wishes = Wishes(BatchOptions(), {}, {"bert.mar": {"batchSize": 6}})
        served = ServedVersions(self.models, client, wishes, BatchMetricsRegistry(CollectorRegistry()))
        self._watch = ModelWatch(
            [BERT] if configured else [], self.models, served, client, cast(TorchServe, torchserve), folder,
            registering=registering,
        )  # fmt: skip

    async def run(self) -> None:
        with pytest.raises(EOFError):
            await self._watch.run()

    def model(self, version: str | None = None) -> HandlerModel:
        return cast(HandlerModel, self.models.get("bert", version))


async def watch(tmp_path: Path, *script: Step) -> ScriptedClient:
    """What was seen of the model's readiness after each answer."""
    watched = Watched(tmp_path, *script)
    await watched.run()
    return watched.client


async def test_a_model_is_ready_when_every_version_has_a_ready_worker(tmp_path: Path) -> None:
    half = (version(1), version(0, "2.0"))
    whole = (version(1), version(1, "2.0"))

    client = await watch(tmp_path, None, LOADING, half, whole)

    assert client.seen == [False, False, False, False, True]


async def test_a_model_that_loses_its_worker_is_not_ready_until_it_is_back(tmp_path: Path) -> None:
    client = await watch(tmp_path, READY, DIED, LOADING, READY)

    assert client.seen == [False, True, False, True]


async def test_five_deaths_within_ten_minutes_end_it_though_it_was_ready_after_each(tmp_path: Path) -> None:
    with pytest.raises(ModelFailed, match="The worker died 5 times: The worker of model bert"):
        await watch(tmp_path, READY, *[DIED, LOADING, 2, READY] * 5)


async def test_five_deaths_over_more_than_ten_minutes_are_forgiven(tmp_path: Path) -> None:
    await watch(tmp_path, READY, *[DIED, LOADING, 3, READY] * 20)


async def test_five_deaths_over_any_time_end_a_model_that_is_never_ready_in_between(tmp_path: Path) -> None:
    with pytest.raises(ModelFailed, match="The worker died 5 times"):
        await watch(tmp_path, READY, *[DIED, LOADING, 20] * 5)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ((DIED, LOADING), "The worker of model bert \\(bert.mar\\) died without a Python exception"),
        ((UNKNOWN,), "TorchServe could not load model bert \\(bert.mar\\). Last problems in its log: boom"),
        (((version(0, max_workers=0),),), "TorchServe could not load model bert"),
    ],
)
async def test_a_first_load_that_fails_ends_it(tmp_path: Path, script: Sequence[Step], message: str) -> None:
    with pytest.raises(ModelFailed, match=message):
        await watch(tmp_path, None, *script)


async def test_the_workers_report_is_the_reason(tmp_path: Path) -> None:
    report = {
        "model": "bert",
        "type": "ModuleNotFoundError",
        "message": "No module named 'x'",
        "where": "handler.py:3 in <module>",
        "missing_module": "x",
    }
    (tmp_path / "bert.json").write_text(json.dumps(report))

    with pytest.raises(ModelFailed) as raised:
        await watch(tmp_path, LOADING)

    assert str(raised.value) == (
        "Model bert (bert.mar) could not be loaded: ModuleNotFoundError: No module named 'x' "
        "(at handler.py:3 in <module>). Add x to the archive's requirements.txt with "
        "install_py_dep_per_model=true, or to the image."
    )


async def test_versions_are_served_with_the_first_as_the_default_and_as_many_batches_as_workers(tmp_path: Path) -> None:
    watched = Watched(tmp_path, (version(2, "2.0"), version(1, "1.0")))

    await watched.run()

    assert [(entry.version, entry.state) for entry in watched.client.index] == [("2.0", "READY"), ("1.0", "READY")]
    assert (watched.model().version, watched.model().queue.concurrency) == ("2.0", 2)
    assert (watched.model("1.0").version, watched.model("1.0").queue.concurrency) == ("1.0", 1)


async def test_scaled_workers_run_more_batches_of_the_same_model(tmp_path: Path) -> None:
    watched = Watched(tmp_path, READY, (version(3),))
    await watched._watch.look()
    before = watched.model()

    await watched.run()

    assert watched.model() is before
    assert before.queue.concurrency == 3


async def test_a_model_that_is_registered_later_is_served_when_it_is_ready(tmp_path: Path) -> None:
    watched = Watched(tmp_path, LOADING, (version(1, batch_size=8),), configured=False, registering=True)

    await watched.run()

    assert watched.client.seen == [True, True, True]
    assert watched.client.index == [IndexEntry("bert", "1.0", "READY", "")]


async def test_a_version_that_is_registered_later_is_not_waited_for(tmp_path: Path) -> None:
    both = (version(1), version(0, "2.0"))
    watched = Watched(tmp_path, READY, both, (version(1), version(1, "2.0")), registering=True)

    await watched.run()

    assert watched.client.seen == [False, True, True, True]
    assert watched.models.versions("bert") == ("1.0", "2.0")


async def test_what_is_unregistered_is_gone(tmp_path: Path) -> None:
    watched = Watched(tmp_path, (version(1), version(1, "2.0")), READY, UNKNOWN, registering=True)
    await watched._watch.look()
    await watched._watch.look()

    assert watched.models.versions("bert") == ("1.0",)

    await watched._watch.look()

    assert (watched.models.names, watched.models.ready) == ((), True)


def test_a_name_with_underscores_is_read_from_the_log() -> None:
    deaths = WorkerDeaths(lambda: 0.0)
    deaths.feed(DIED.replace("bert_1.0", "my_bert_model_1.0"))
    deaths.feed(DIED.replace("Retry worker", "no worker"))

    assert [deaths.count(model) for model in ("my_bert_model", "bert")] == [1, 0]
