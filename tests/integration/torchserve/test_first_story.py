"""The first story's configuration, word for word, on the real TorchServe: what it answers, and what it leaves alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.integration.torchserve.handlers import LENGTHS
from tests.integration.torchserve.running import Adapter, model_dir
from tests.support.archives import build_archive
from tests.support.runtimes import ROOT, wait_ended

HELLO = b'{"instances": [{"data": "Hello World!"}]}'


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Adapter]:
    story = (ROOT / "examples/bert/config.properties").read_text()
    folder = model_dir(tmp_path_factory.mktemp("story") / "models", story)
    build_archive(folder / "model-store", "bert-model.mar", LENGTHS)
    with Adapter(folder, has_torch=True, INFERENCE_SERVICE_NAME="torchserve") as running:
        yield running.wait_all_ready()


def test_a_request_without_content_type_is_answered(adapter: Adapter) -> None:
    answer = adapter.request("POST", "/v1/models/bert:predict", HELLO, Cookie="session=1")

    assert (answer.status, answer.document) == (200, {"predictions": [12]})
    assert answer.headers["content-type"] == "application/json"


def test_the_services_own_name_reaches_its_one_model(adapter: Adapter) -> None:
    assert adapter.predict("torchserve", {"instances": [{"data": "one"}]}).document == {"predictions": [3]}
    assert adapter.get("/v1/models/torchserve").document == {"name": "bert", "ready": True}


def test_a_handler_that_raises_is_quoted_and_the_next_request_works(adapter: Adapter) -> None:
    body = b'{"instances": [{"data": "raise"}]}'

    answer = adapter.request("POST", "/v1/models/bert:predict", body, X_Request_Id="mine")

    assert (answer.status, answer.document) == (
        500,
        {"error": "ValueError : cannot read this text", "component": "model", "request_id": "mine"},
    )
    assert adapter.predict("bert", {"instances": [{"data": "one"}]}).document == {"predictions": [3]}


def test_metrics_are_the_adapters_and_torchserves(adapter: Adapter) -> None:
    adapter.predict("bert", {"instances": [{"data": "one"}]})

    text = adapter.metrics()

    assert 'http_requests_total{method="POST",route="/v1/models/{model}:predict",status="200"}' in text
    assert 'ts_inference_requests_total{model_name="bert"' in text


def test_every_changed_setting_is_said(adapter: Adapter) -> None:
    said = [line.partition("config.properties: ")[2].partition(":")[0] for line in adapter.log.splitlines()]

    moved = {"grpc_inference_port", "grpc_management_port"}  # where somebody else has TorchServe's own
    assert set(filter(None, said)) - moved == {
        "enable_envvars_config", "model_store", "inference_address", "management_address", "metrics_address",
        "grpc_inference_address", "grpc_management_address", "service_envelope", "disable_token_authorization",
        "enable_metrics_api", "metrics_mode", "disable_system_metrics", "max_request_size", "max_response_size",
        "job_queue_size", "vmargs",
    }  # fmt: skip


def test_what_a_handler_prints_is_in_the_log(adapter: Adapter) -> None:
    assert "this handler is being initialized" in adapter.log


def test_torchserve_listens_on_loopback_only(adapter: Adapter) -> None:
    listening = [host for process in (adapter.torchserve(), *adapter.workers()) for host in hosts_of(process)]

    assert listening == ["127.0.0.1"] * len(["inference", "management", "metrics", "gRPC inference", "gRPC management"])


def test_the_adapter_listens_on_the_host_that_it_is_given(adapter: Adapter) -> None:
    assert hosts_of(psutil.Process(adapter.process.pid)) == ["127.0.0.1"] * 3  # HTTP, gRPC, and its relay's


def hosts_of(process: psutil.Process) -> list[str]:
    """Where a process listens."""
    connections = process.connections("tcp")
    return [item.laddr.ip.removeprefix("::ffff:") for item in connections if item.status == "LISTEN"]


def test_nothing_is_written_outside_the_work_directory(adapter: Adapter) -> None:
    outside = [*(adapter.folder / "cwd").iterdir(), *(adapter.folder / "home").iterdir()]
    models = sorted(path.relative_to(adapter.model_dir) for path in adapter.model_dir.rglob("*") if path.is_file())

    assert outside == []
    assert models == [Path("config/config.properties"), Path("model-store/bert-model.mar")]


def test_requests_wait_for_the_worker_that_comes_in_the_place_of_a_killed_one(adapter: Adapter) -> None:
    (worker,) = adapter.workers()
    worker.kill()
    worker.wait()

    adapter.wait_until(lambda: adapter.get("/v2/health/ready").status == 503, "the worker's end is noticed")
    unready = adapter.get("/v1/models/bert")
    answer = adapter.predict("bert", {"instances": [{"data": "one"}]})

    assert unready.status == 503
    assert (answer.status, answer.document) == (200, {"predictions": [3]})
    assert adapter.get("/v2/health/ready").document == {"ready": True}


def test_a_worker_that_cannot_use_its_gpu_any_more_is_replaced(adapter: Adapter) -> None:
    """TorchServe's own would fail from now on. It ends with the next request, the first that it can lose."""
    (worker,) = adapter.workers()

    failed = adapter.predict("bert", {"instances": [{"data": "lose the GPU"}]})
    lost = adapter.predict("bert", {"instances": [{"data": "one"}]})
    print(failed, lost)
    worker.wait()
    answer = adapter.predict("bert", {"instances": [{"data": "one"}]})

    assert failed.status == 500
    assert "The process cannot use the GPU any more after such an error, and is replaced." in failed.document["error"]
    assert (answer.status, answer.document) == (200, {"predictions": [3]})


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills a child with its parent")
def test_a_killed_adapter_leaves_nothing_running(adapter: Adapter) -> None:
    """The last test: it ends the adapter."""
    others = [adapter.torchserve(), *adapter.workers()]

    adapter.process.kill()

    wait_ended(others)
