"""When a model counts as ready, and when waiting for it ends, on scripted answers of TorchServe."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from torchserve_adapter.client import TorchServeClient
from torchserve_adapter.process import TorchServe, WorkerDeaths
from torchserve_adapter.readiness import ModelWatch, Readiness
from transformer_sdk.errors import NotReady
from transformer_sdk.model_store.errors import ModelFailed
from transformer_sdk.model_store.models import Model

BERT = Model("bert", "bert.mar")
DIED = "2026-01-01 00:00:00,000 INFO    torchserve [W-9000-bert_1.0] Retry worker: 9000 in 1 seconds."

Answer = list[dict[str, Any]] | None
Step = Answer | str | int


def version(*statuses: str, max_workers: int = 1) -> dict[str, Any]:
    return {"maxWorkers": max_workers, "workers": [{"status": status} for status in statuses]}


READY = [version("READY")]
LOADING = [version("UNLOADING")]


class FakeTorchServe:
    def __init__(self) -> None:
        self.now = 0.0
        self.deaths = WorkerDeaths(lambda: self.now)

    def last_problems(self) -> str:
        return "Last problems in its log: boom"


class ScriptedClient:
    """Gives its answers one by one; then the test is over. Among them: lines of the log, and minutes that pass."""

    def __init__(self, torchserve: FakeTorchServe, script: Sequence[Step]) -> None:
        self._torchserve = torchserve
        self._script = iter(script)
        self.readiness = Readiness(["bert"])
        self.seen: list[bool] = []

    async def describe(self, model: str) -> Answer:
        self.seen.append(self.readiness.is_ready(model))
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


async def watch(tmp_path: Path, *script: Step) -> ScriptedClient:
    """What was seen of the model's readiness after each answer."""
    torchserve = FakeTorchServe()
    client = ScriptedClient(torchserve, script)
    watch = ModelWatch([BERT], client.readiness, cast(TorchServeClient, client), cast(TorchServe, torchserve), tmp_path)
    with pytest.raises(EOFError):
        await watch.run()
    return client


async def test_a_model_is_ready_when_every_version_has_a_ready_worker(tmp_path: Path) -> None:
    half = [version("READY"), version("UNLOADING")]
    whole = [version("READY"), version("UNLOADING", "READY")]

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
        (([],), "TorchServe could not load model bert \\(bert.mar\\). Last problems in its log: boom"),
        (([version(max_workers=0)],), "TorchServe could not load model bert"),
    ],
)
async def test_a_first_load_that_fails_ends_it(tmp_path: Path, script: Sequence[Answer | str], message: str) -> None:
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


def test_a_request_for_a_missing_model_is_told_why() -> None:
    with pytest.raises(NotReady, match=r"^Model with name bert is not ready: it is loading\.$"):
        Readiness(["bert"]).require("bert")


def test_a_name_with_underscores_is_read_from_the_log() -> None:
    deaths = WorkerDeaths(lambda: 0.0)
    deaths.feed(DIED.replace("bert_1.0", "my_bert_model_1.0"))
    deaths.feed(DIED.replace("Retry worker", "no worker"))

    assert [deaths.count(model) for model in ("my_bert_model", "bert")] == [1, 0]
