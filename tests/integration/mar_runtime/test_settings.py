"""What the user sets for all handlers, in the environment and in config.properties."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.mar_runtime.serving import configure, metric
from tests.support.model_folder import manifest, write_mar
from tests.support.runtimes import Request, Runtime

METRICS = "model_metrics:\n  gauge:\n    - {name: Confidence, unit: percent, dimensions: [ModelName]}\n"
MEASURING = b"""
import torch
from ts.metrics.metric_type_enum import MetricTypes

class Handler:
    def initialize(self, context):
        self.confidence = context.metrics.get_metric("Confidence", MetricTypes.GAUGE)

    def handle(self, instances, context):
        self.confidence.add_or_update(87.5, [context.model_name])
        return [torch.get_num_threads() for _ in instances]
"""


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    folder = tmp_path_factory.mktemp("settings")
    described = manifest(modelName="m", configFile="c.yaml")
    files = {"handler.py": MEASURING, "c.yaml": b"maxRetryTimeoutInSec: 7\n"}
    write_mar(folder / "model-store/m.mar", described, files)
    configure(folder, "default_workers_per_model=1", "metrics_config=config/metrics.yaml", "netty_client_threads=4")
    (folder / "config/metrics.yaml").write_text(METRICS)
    with Runtime("mar", folder, OMP_NUM_THREADS="3") as running:
        yield running.wait_ready(["m"])


def test_nothing_is_loaded_or_unloaded_unless_it_is_turned_on(runtime: Runtime) -> None:
    changes = [runtime.send(Request("POST", f"/v2/repository/models/m/{verb}")) for verb in ("load", "unload")]

    assert [one.status for one in changes] == [501, 501]
    assert "enable it with the argument --enable-model-api" in changes[0].document["error"]
    assert runtime.get("/v1/models").document == {"models": ["m"]}


def test_a_handler_has_the_users_threads_and_metrics(runtime: Runtime) -> None:
    assert runtime.predict("m", {"instances": [1]}).document == {"predictions": [3]}
    assert metric(runtime, f'Confidence{{Hostname="{socket.gethostname()}",ModelName="m"}}') == 87.5


def test_a_setting_without_effect_is_named_at_the_start(runtime: Runtime) -> None:
    assert "config.properties: netty_client_threads 4 has no effect: one event loop takes all" in runtime.log
    assert "m.mar: maxRetryTimeoutInSec 7 has no effect: the server exits when a worker dies five" in runtime.log


def test_an_archive_that_asks_for_several_processes_ends_the_server(tmp_path: Path) -> None:
    files = {"handler.py": MEASURING, "c.yaml": b"parallelType: tp\ntorchrun: {nproc-per-node: 2}\n"}
    write_mar(tmp_path / "model-store/wide.mar", manifest(modelName="wide", configFile="c.yaml"), files)

    with Runtime("mar", tmp_path) as runtime:
        assert runtime.wait_exit() == 3
        assert runtime.termination_message.startswith("wide.mar asks for parallelType: tp, ")
