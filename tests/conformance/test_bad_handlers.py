"""Handlers that end or hang: they cost the requests that they held, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.archives import HANDLERS
from tests.support.model_folder import manifest, write_mar
from tests.support.runtimes import OURS, Answer, Runtime

pytestmark = pytest.mark.timeout(600)

DEATHS = ("exit", "end", "kill")
# Requests make the first one misbehave; the second goes on.
MODELS = (BAD, OTHER) = ("bad", "other")
RESPONSE_TIMEOUT_S = 2


def model_dir(folder: Path) -> Path:
    """Serves each model with the misbehaving handler."""
    settings = {"defaultVersion": True, "minWorkers": 1, "maxWorkers": 1, "responseTimeout": RESPONSE_TIMEOUT_S}
    table = {name: {"1.0": {**settings, "marName": f"{name}.mar"}} for name in MODELS}
    for name in MODELS:
        write_mar(
            folder / "model-store" / f"{name}.mar",
            manifest(modelName=name, handler="misbehaving.py"),
            {"misbehaving.py": (HANDLERS / "misbehaving.py").read_bytes()},
        )
    (folder / "config").mkdir()
    (folder / "config/config.properties").write_text(
        f"service_envelope=kserve\nload_models=all\nmodels={json.dumps(table)}\n"
    )
    return folder


@pytest.fixture(scope="module", params=OURS)
def runtime(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    with Runtime(request.param, model_dir(tmp_path_factory.mktemp("bad")), has_torch=False) as running:
        yield running.wait_ready(MODELS)


def ask(runtime: Runtime, model: str, text: str = "a text") -> Answer:
    return runtime.predict(model, {"instances": [text]})


def worker(runtime: Runtime, model: str) -> int:
    """The process that answers; the request waits for one."""
    answer = ask(runtime, model)
    assert answer.status == 200, answer.body
    (process,) = answer.document["predictions"]
    return int(process)


@pytest.mark.parametrize("death", DEATHS)
def test_a_handler_that_ends_its_process_costs_the_request_that_it_held(runtime: Runtime, death: str) -> None:
    before = worker(runtime, BAD)

    lost = ask(runtime, BAD, death)
    other = ask(runtime, OTHER)
    after = worker(runtime, BAD)

    assert (lost.status, lost.document["component"]) == (502, "worker"), lost
    assert lost.document["error"].startswith(f"The worker of model {BAD} died while it had the request")
    assert other.status == 200
    assert after != before


def test_a_handler_that_hangs_is_given_up_and_replaced(runtime: Runtime) -> None:
    before = worker(runtime, BAD)

    given_up = ask(runtime, BAD, "hang")
    after = worker(runtime, BAD)

    assert given_up.status == 504, given_up.body
    assert f"{RESPONSE_TIMEOUT_S} s" in given_up.document["error"]
    assert after != before
