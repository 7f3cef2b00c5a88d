"""Models that come and go while TorchServe runs: by its management API, and by the v2 protocol's repository."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.torchserve.handlers import FAILING, LENGTHS
from tests.integration.torchserve.running import Adapter, model_dir
from tests.support.archives import build_archive
from tests.support.ports import unbound_port
from tests.support.runtimes import Answer

ONE = {"instances": [{"data": "one"}]}


def configured(folder: Path, config: str) -> Path:
    """One model that is loaded, and one that is only there."""
    made = model_dir(folder / "models", f"load_models=first.mar\ndefault_workers_per_model=1\n{config}")
    build_archive(made / "model-store", "first.mar", LENGTHS)
    build_archive(made / "model-store", "second.mar", LENGTHS)
    return made


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Adapter]:
    """As users of TorchServe's management API write it, on a port of their own choice."""
    port = unbound_port()
    config = f"enable_model_api=true\nmanagement_address=http://0.0.0.0:{port}\n"
    with Adapter(configured(tmp_path_factory.mktemp("managed"), config)) as running:
        running.wait_all_ready()
        running.api_port = port
        yield running


def manage(adapter: Adapter, method: str, path: str) -> Answer:
    return adapter.request(method, path, port=adapter.api_port)


def batch_limits(adapter: Adapter, model: str) -> list[str]:
    return re.findall(rf"model {model}, version 1.0: .* up to (\d+) instances", adapter.log)


def test_a_model_that_is_registered_is_served_at_once_in_batches_of_its_size(managed: Adapter) -> None:
    assert managed.predict("second", ONE).status == 404

    registered = manage(
        managed, "POST", "/models?url=second.mar&batch_size=8&max_batch_delay=5000&initial_workers=1&synchronous=true"
    )

    assert registered.document["status"] == 'Model "second" Version: 1.0 registered with 1 initial workers'
    assert managed.predict("second", ONE).document == {"predictions": [3]}
    assert batch_limits(managed, "second") == ["8"]

    scaled = manage(managed, "PUT", "/models/second?min_worker=2&synchronous=true")
    described = manage(managed, "GET", "/models/second").document[0]

    assert scaled.status == 200
    assert (len(described["workers"]), described["batchSize"], described["maxBatchDelay"]) == (2, 8, 0)

    assert manage(managed, "DELETE", "/models/second/1.0").document == {"status": 'Model "second" unregistered'}
    assert managed.predict("second", ONE).status == 404
    assert managed.get("/v2/health/ready").status == 200


def test_the_port_for_requests_says_where_the_management_api_is(managed: Adapter) -> None:
    answer = managed.request("PUT", "/models/second?min_worker=2")

    told = (
        f"There is nothing at /models/second: the management API is at http://127.0.0.1:{managed.api_port} in "
        "the pod; GET /v1/models lists the models."
    )
    assert (answer.status, answer.document["error"]) == (404, told)


@pytest.mark.parametrize(
    "by", ["/models?url=second.mar&initial_workers=1&synchronous=true", "/v2/repository/models/second/load"]
)
def test_without_a_size_torchserve_is_told_its_own(managed: Adapter, by: str) -> None:
    loaded = manage(managed, "POST", by) if by.startswith("/models") else managed.request("POST", by)
    described = manage(managed, "GET", "/models/second").document[0]
    manage(managed, "DELETE", "/models/second/1.0")

    assert (loaded.status, described["batchSize"]) == (200, 1)


def test_a_model_that_cannot_be_loaded_is_given_up_and_says_why_while_others_are_served(managed: Adapter) -> None:
    archive = build_archive(managed.model_dir / "model-store", "failing.mar", FAILING)

    assert manage(managed, "POST", "/models?url=failing.mar&initial_workers=1&synchronous=false").status == 202
    managed.wait_until(lambda: "model failing is given up" in managed.log, "the model is given up")
    told = managed.get("/v2/models/failing/ready")
    refused = managed.predict("failing", ONE)

    assert (told.status, told.document) == (
        503,
        {
            "name": "failing",
            "ready": False,
            "reason": "is given up until it is registered anew. Model failing (failing.mar) could not be loaded: "
            "RuntimeError: the weights are not there (at handler.py:4 in initialize). "
            "Correct the handler or the files of the model, and serve it again",
        },
    )
    assert (refused.status, told.document["reason"] in refused.document["error"]) == (503, True)
    assert managed.get("/v2/health/ready").status == 200
    assert len(managed.predict("first", ONE).document["predictions"]) == 1

    archive.unlink()
    build_archive(managed.model_dir / "model-store", "failing.mar", LENGTHS)
    assert managed.request("POST", "/v2/repository/models/failing/load").status == 200
    assert managed.predict("failing", ONE).document == {"predictions": [3]}
    assert manage(managed, "DELETE", "/models/failing/1.0").status == 200
    assert managed.predict("failing", ONE).status == 404


def test_what_torchserve_refuses_is_answered_as_torchserve_does(managed: Adapter) -> None:
    unknown = manage(managed, "POST", "/models?url=third.mar")

    assert unknown.status == 404
    assert unknown.document["type"] == "ModelNotFoundException"


def test_the_repository_loads_and_unloads_what_the_store_holds(managed: Adapter) -> None:
    loaded = managed.request("POST", "/v2/repository/models/second/load")

    assert (loaded.status, loaded.document) == (200, {"name": "second", "load": True})
    assert managed.predict("second", ONE).document == {"predictions": [3]}
    assert batch_limits(managed, "second")[-1] == "32"
    assert managed.request("POST", "/v2/repository/models/second/load").status == 200  # it is there

    unloaded = managed.request("POST", "/v2/repository/models/second/unload")
    index = managed.request("POST", "/v2/repository/index")

    assert (unloaded.status, unloaded.document) == (200, {"name": "second", "unload": True})
    assert index.document == [{"name": "first", "version": "1.0", "state": "READY", "reason": ""}]
    assert managed.request("POST", "/v2/repository/models/third/load").status == 404
    assert managed.request("POST", "/v2/repository/models/third/unload").status == 404
