"""When a model counts as ready, and when waiting for it ends, on scripted answers of TorchServe."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from torchserve_adapter.client import TorchServeClient
from torchserve_adapter.errors import ModelFailed
from torchserve_adapter.models import Model
from torchserve_adapter.process import TorchServe, WorkerDeaths
from torchserve_adapter.readiness import ModelWatch, Readiness
from transformer_sdk.errors import NotReady

BERT = Model("bert", "bert.mar")
DIED = "2026-01-01 00:00:00,000 INFO    torchserve [W-9000-bert_1.0] Retry worker: 9000 in 1 seconds."

Answer = list[dict[str, Any]] | None


def version(*statuses: str, max_workers: int = 1) -> dict[str, Any]:
    return {"maxWorkers": max_workers, "workers": [{"status": status} for status in statuses]}


READY = [version("READY")]
LOADING = [version("UNLOADING")]


class FakeTorchServe:
    def __init__(self) -> None:
        self.deaths = WorkerDeaths()

    def last_problems(self) -> str:
        return "Last problems in its log: boom"


class ScriptedClient:
    """Gives its answers one by one, a worker's death where a line of the log is among them; then the test is over."""

    def __init__(self, torchserve: FakeTorchServe, script: Sequence[Answer | str]) -> None:
        self._torchserve = torchserve
        self._script = list(script)
        self.readiness = Readiness(["bert"])
        self.seen: list[bool] = []

    async def describe(self, model: str) -> Answer:
        self.seen.append(self.readiness.is_ready(model))
        # The next look is due at once, whatever the pause.
        asyncio.get_running_loop().call_soon(self._torchserve.deaths.news.set)
        while self._script and isinstance(self._script[0], str):
            self._torchserve.deaths.feed(cast(str, self._script.pop(0)))
        if not self._script:
            raise EOFError
        return cast(Answer, self._script.pop(0))


async def watch(tmp_path: Path, *script: Answer | str) -> ScriptedClient:
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


async def test_the_fifth_death_in_a_row_ends_it(tmp_path: Path) -> None:
    four = [DIED] * 4
    await watch(tmp_path, READY, *four, LOADING, READY, *four, LOADING)

    with pytest.raises(ModelFailed, match="After 5 restarts: The worker of model bert"):
        await watch(tmp_path, READY, *four, DIED, LOADING)


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
    deaths = WorkerDeaths()
    deaths.feed(DIED.replace("bert_1.0", "my_bert_model_1.0"))
    deaths.feed(DIED.replace("Retry worker", "no worker"))

    assert dict(deaths.of) == {"my_bert_model": 1}
