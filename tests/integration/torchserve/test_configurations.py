"""Other ways to write a configuration, on the real TorchServe."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from tests.integration.torchserve import handlers
from tests.integration.torchserve.running import Adapter, model_dir
from tests.support.archives import build_archive
from tests.support.model_folder import manifest, write_mar
from tests.support.ports import unbound_port
from tests.support.runtimes import Answer
from tests.support.wheels import make_wheel

# Over several lines, as a Java properties file allows; with TorchServe's own batching.
SEVERAL = r"""
models={\
  "short": {"1.0": {"defaultVersion": true, "marName": "short.mar", "minWorkers": 1, "maxWorkers": 1, \
                    "batchSize": 4, "maxBatchDelay": 200, "responseTimeout": 60}},\
  "long": {"1.0": {"defaultVersion": true, "marName": "long-model.tar.gz", "minWorkers": 1, "maxWorkers": 1}},\
  "alone": {"1.0": {"marName": "alone.mar", "minWorkers": 1, "maxWorkers": 1, "batchSize": 1}}\
}
load_models=all
default_workers_per_model=1
"""
# What these say is in their archives.
IN_YAML = {"batching": b"batchSize: 8\nmaxBatchDelay: 600000\n", "tickets": b"useJobTicket: true\n"}
MODELS = ("alone", "batching", "long", "short", "tickets")
ONE = {"instances": [{"data": "one"}]}

# No more than names; TorchServe itself would not start with this.
BARE = """
enable_envvars_config=true
token_expiration_min=30
cors_allowed_origin=https://pages.example
install_py_dep_per_model=true
model_snapshot={"models": {"named": {"1.0": {"marName": "lengths.mar"}}}}
"""


@dataclass(frozen=True)
class Several:
    """One adapter of several models, with what it said before they were loaded."""

    adapter: Adapter
    starting: Answer
    asked_too_early: Answer


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Several]:
    port = unbound_port()
    config = f"{SEVERAL}management_address=http://0.0.0.0:{port}\n"
    folder = model_dir(tmp_path_factory.mktemp("several") / "models", config, store="mar-store")
    store = folder / "mar-store"
    build_archive(store, "short.mar", handlers.LENGTHS)
    build_archive(store, "long-model.tar.gz", handlers.LENGTHS, model_name="long")
    build_archive(store, "alone.mar", handlers.LENGTHS)
    for name, yaml in IN_YAML.items():
        files = {"handler.py": handlers.LENGTHS.encode(), "model-config.yaml": yaml}
        write_mar(store / f"{name}.mar", manifest(modelName=name, configFile="model-config.yaml"), files)
    with Adapter(folder, INFERENCE_SERVICE_NAME="both") as adapter:
        adapter.api_port = port
        adapter.wait_until(lambda: adapter.get("/v2/health/live").status == 200, "the server is live")
        starting, asked = adapter.get("/v2/health/ready"), adapter.predict("short", ONE)
        yield Several(adapter.wait_all_ready(), starting, asked)


def test_the_health_answer_names_what_is_not_ready(several: Several) -> None:
    starting, asked = several.starting, several.asked_too_early

    assert (starting.status, starting.document) == (
        503,
        {"ready": False, "models": dict.fromkeys(MODELS, "is loading")},
    )
    assert (asked.status, asked.headers["retry-after"]) == (503, "1")
    assert asked.document["error"] == "Model with name short is not ready: it is loading."


def test_a_mar_and_a_tar_gz_of_mar_store_are_loaded_and_batched(several: Several) -> None:
    adapter, texts = several.adapter, ["a", "raise", "ccc", "dddd"]

    with ThreadPoolExecutor(len(texts)) as clients:
        answers = list(clients.map(lambda text: adapter.predict("short", {"instances": [{"data": text}]}), texts))
    alias = adapter.predict("both", {"instances": []})
    other = adapter.predict("long", {"instances": [{"data": "four"}, {"data": "fifth"}]})

    # One bad request in a batch fails alone.
    assert [(answer.status, answer.document.get("predictions")) for answer in answers] == [
        (200, [1]),
        (500, None),
        (200, [3]),
        (200, [4]),
    ]
    assert answers[1].document["error"] == "ValueError : cannot read this text"
    assert other.document == {"predictions": [4, 5]}
    assert (alias.status, alias.document["error"]) == (
        404,
        f"Model with name both does not exist. Models served here: {', '.join(MODELS)}.",
    )


def test_an_archive_that_batches_by_itself_makes_nobody_wait(several: Several) -> None:
    """TorchServe alone would answer after ten minutes, when no more requests have come."""
    assert several.adapter.predict("batching", ONE).document == {"predictions": [3]}
    log = several.adapter.log
    assert re.search("model batching, version 1.0: .*go to the model together, up to 8 instances", log)


def test_requests_wait_for_a_worker_whatever_an_archive_says_of_job_tickets(several: Several) -> None:
    """TorchServe alone refuses every request that comes while its worker is not idle."""
    with ThreadPoolExecutor(4) as clients:
        answers = list(clients.map(lambda _: several.adapter.predict("tickets", ONE), range(400)))

    assert {answer.status for answer in answers} == {200}


def test_nothing_can_be_registered_unless_it_is_turned_on(several: Several) -> None:
    adapter = several.adapter
    by_management = [
        adapter.request(*asked, port=adapter.api_port).status
        for asked in (("POST", "/models?url=short.mar"), ("DELETE", "/models/short"))
    ]

    assert by_management == [405, 405]
    changes = [adapter.request("POST", f"/v2/repository/models/short/{verb}") for verb in ("load", "unload")]
    assert [one.status for one in changes] == [501, 501]
    assert [one["name"] for one in adapter.request("POST", "/v2/repository/index").document] == [*MODELS]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Adapter]:
    """The least that a snapshot can say, an archive with requirements, and a variable for a setting."""
    folder = tmp_path_factory.mktemp("bare")
    wheel = make_wheel(folder, "adapter_test_words", "installed")
    handler = handlers.LENGTHS.replace("import time", "import time, adapter_test_words", 1)
    models = model_dir(folder / "models", BARE)
    build_archive(models / "model-store", "lengths.mar", handler, requirements=f"{wheel}\n")
    environment = {"TS_INFERENCE_ADDRESS": "http://0.0.0.0:8085", "BATCH_TIMEOUT": "60000"}
    environment["PACKAGE_CACHE"] = str(models / "cache")
    with Adapter(models, **environment) as running:
        yield running.wait_all_ready()


def test_a_snapshot_that_only_names_an_archive_which_has_requirements_is_served(bare: Adapter) -> None:
    assert bare.predict("named", {"instances": [{"data": "one"}]}).document == {"predictions": [3]}


def test_what_an_archive_requires_is_kept_for_other_servers(bare: Adapter) -> None:
    [kept] = bare.model_dir.glob("cache/*/adapter_test_words.py")

    assert kept.read_text() == "WORD = 'installed'\n"


def test_a_variable_sets_a_setting_but_opens_no_door(bare: Adapter) -> None:
    effective = (bare.folder / "work" / "config.properties").read_text()

    assert "inference_address=http\\://127.0.0.1\\:" in effective
    said = "inference_address: unset → http://0.0.0.0:8085 (from the environment variable TS_INFERENCE_ADDRESS)"
    assert said in bare.log


def test_a_setting_without_effect_is_named_at_the_start(bare: Adapter) -> None:
    assert "config.properties: token_expiration_min 30 has no effect: tokens are not checked here;" in bare.log
