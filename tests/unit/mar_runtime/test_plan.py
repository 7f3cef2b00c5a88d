"""How each model is to be served, by what the archive, config.properties and the flags say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from data_plane.batching.limits import BatchLimits
from data_plane.batching.sequences import SequenceLimits
from data_plane.model_server.errors import ConfigurationError
from mar_runtime.configuration.plan import (
    ArchivePlan,
    ArchiveRequest,
    FileRequest,
    ServingOptions,
    archive_plan,
    bare_files,
)
from mar_runtime.pool.worker_pool import PoolPolicy
from model_archive.manifest import Manifest
from torchserve_compat.store.settings import BatchOptions
from torchserve_compat.store.versions import ModelVersion


def archive_manifest(handler: str, requirements_file: str | None = None) -> Manifest:
    return Manifest("bert", "1.0", handler, requirements_file)


MANIFEST = archive_manifest("handler.py")
OPTIONS = ServingOptions(BatchOptions())


def plan(
    manifest: Manifest = MANIFEST,
    yaml: Mapping[str, Any] | None = None,
    properties: Mapping[str, str] | None = None,
    options: ServingOptions = OPTIONS,
    devices: int = 1,
    **parameters: Any,
) -> ArchivePlan:
    version = ModelVersion("bert", "1.0", "bert.mar", is_default=True, parameters=parameters)
    request = ArchiveRequest(version, Path("bert.mar"))
    return archive_plan(request, manifest, yaml or {}, properties=properties or {}, options=options, devices=devices)


def test_an_archive_that_nothing_is_said_of_gets_the_defaults() -> None:
    assert plan() == ArchivePlan(
        handler="handler.py",
        envelope="kserve",
        requirements=None,
        limits=BatchLimits(merges_rows=False),
        stated_batch_size=1,
        policy=PoolPolicy(workers=1, response_timeout_s=120, startup_timeout_s=120),
    )


def test_all_that_can_be_said_is_followed() -> None:
    made = plan(
        archive_manifest("module:function", "requirements.txt"),
        properties={
            "install_py_dep_per_model": "TRUE", "job_queue_size": "7", "default_startup_timeout": "300",
            "service_envelope": "json",
        },
        options=ServingOptions(BatchOptions(None, 250, 5000), max_requests=1000, max_memory_mib=2048),
        minWorkers=3, responseTimeout=60, batchSize=4,
    )  # fmt: skip

    assert made == ArchivePlan(
        handler="module:function",
        envelope="json",
        requirements="requirements.txt",
        limits=BatchLimits(max_batch_size=4, max_latency_s=0.25, queue_size=7, timeout_s=5.0),
        stated_batch_size=4,
        policy=PoolPolicy(3, 0, 60, 300, 1000, 2048),
        installs=True,
    )


@pytest.mark.parametrize(("snapshot", "workers"), [("{…}", 3), ("", 2)])
def test_the_archives_yaml_gives_way_to_a_snapshot_and_wins_over_models(snapshot: str, workers: int) -> None:
    yaml = {"minWorkers": 2, "batchSize": 8, "responseTimeout": 9}

    made = plan(yaml=yaml, properties={"model_snapshot": snapshot}, minWorkers=3)

    assert (made.policy.workers, made.limits.max_batch_size, made.policy.response_timeout_s) == (workers, 8, 9)


@pytest.mark.parametrize("value", [0, -1, 1.5, 2**31, "", "8", None, True, [1, 2]])
def test_a_number_of_the_archive_that_torchserve_ignores_is_ignored(value: Any) -> None:
    names = (
        "batchSize", "responseTimeout", "startupTimeout", "minWorkers", "maxWorkers", "jobQueueSize",
        "clientTimeoutInMills",
    )  # fmt: skip

    assert plan(yaml=dict.fromkeys(names, value)) == plan()
    assert plan(yaml=dict.fromkeys(names, value), properties={"default_response_timeout": "7"}, batchSize=4) == plan(
        properties={"default_response_timeout": "7"}, batchSize=4
    )


def test_more_workers_at_least_than_at_most_are_ignored() -> None:
    assert plan(yaml={"minWorkers": 3, "maxWorkers": 2}) == plan()
    assert plan(yaml={"minWorkers": 3}).policy.workers == 3


def test_the_services_batch_size_wins() -> None:
    assert plan(options=ServingOptions(BatchOptions(16)), batchSize=4).limits.max_batch_size == 16


def test_the_servers_own_times_are_for_models_that_say_none() -> None:
    properties = {"default_response_timeout": "7", "default_startup_timeout": "8"}

    policies = [
        plan(properties=properties).policy,
        plan(properties=properties, responseTimeout=1, startupTimeout=2).policy,
    ]

    assert [(one.response_timeout_s, one.startup_timeout_s) for one in policies] == [(7, 8), (1, 2)]


@pytest.mark.parametrize(("batch_timeout", "seconds"), [(None, 1.5), (3000, 3.0)])
def test_an_archive_says_how_long_its_clients_wait(batch_timeout: int | None, seconds: float) -> None:
    options = ServingOptions(BatchOptions(timeout_ms=batch_timeout))

    assert plan(options=options, yaml={"clientTimeoutInMills": 1500}).limits.timeout_s == seconds
    assert plan(yaml={"clientTimeoutInMills": 0}).limits.timeout_s is None


@pytest.mark.parametrize(
    ("made", "merges"),
    [
        (lambda: plan(), False),
        (lambda: plan(batchSize=4), True),
        (lambda: plan(yaml={"batchSize": 4}), True),
        (lambda: plan(options=ServingOptions(BatchOptions(16))), True),
        (lambda: plan(archive_manifest("image_classifier")), True),
        (lambda: plan(archive_manifest("image_classifier.py")), False),
    ],
)
def test_rows_are_merged_where_that_was_asked_for_or_the_handler_is_made_for_it(
    made: Callable[[], ArchivePlan], merges: bool
) -> None:
    assert made().limits.merges_rows is merges


@pytest.mark.parametrize(
    ("own", "properties", "workers"),
    [
        ({}, {"default_workers_per_model": "2"}, 2),
        ({"minWorkers": 0}, {}, 1),
        ({}, {"default_workers_per_model": "0"}, 1),
    ],
)
def test_a_model_has_a_worker(own: dict[str, int], properties: dict[str, str], workers: int) -> None:
    assert plan(properties=properties, **own).policy.workers == workers


@pytest.mark.parametrize(
    ("devices", "own", "workers"),
    [
        (0, {}, (1, 0)),
        (1, {}, (1, 0)),
        (2, {}, (1, 1)),
        (64, {}, (1, 3)),
        (4, {"minWorkers": 2}, (2, 0)),
    ],
)
def test_a_model_that_is_told_no_number_may_have_a_worker_for_each_device_up_to_four(
    devices: int, own: dict[str, Any], workers: tuple[int, int]
) -> None:
    policy = plan(devices=devices, **own).policy

    assert (policy.workers, policy.more_workers) == workers


@pytest.mark.parametrize(
    ("properties", "envelope"),
    [({}, "kserve"), ({"service_envelope": "body"}, "body"), ({"service_envelope": ""}, "none")],
)
def test_the_envelope_is_the_configurations(properties: dict[str, str], envelope: str) -> None:
    assert plan(properties=properties).envelope == envelope


def test_requirements_are_installed_only_where_that_is_turned_on() -> None:
    manifest = archive_manifest("h", requirements_file="requirements.txt")

    assert plan(manifest).requirements is None
    assert plan(manifest, properties={"install_py_dep_per_model": "false"}).requirements is None


def test_an_envelope_that_there_is_none_of_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"There is no service envelope 'v3'; use one of kserve,"):
        plan(properties={"service_envelope": "v3"})


# --- model files without an archive ------------------------------------------------------------------


def test_a_lone_model_file_has_the_services_name() -> None:
    files = [Path("._model.pt"), Path("model.pt"), Path("model-config.yaml")]

    assert bare_files(files, "digits") == (FileRequest("digits", Path("model.pt")),)
    assert bare_files(files, None) == (FileRequest("model", Path("model.pt")),)


def test_several_model_files_have_their_own_names() -> None:
    assert bare_files([Path("b.onnx"), Path("a.pt2")], "digits") == (
        FileRequest("a", Path("a.pt2")),
        FileRequest("b", Path("b.onnx")),
    )


def test_model_files_that_would_have_one_name_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"a\.onnx and a\.pt would have the same name"):
        bare_files([Path("a.pt"), Path("a.onnx")], None)


@pytest.mark.parametrize(("yaml", "size"), [({}, 1), ({"batchSize": 8}, 8)])
def test_a_running_batch_has_the_size_that_is_stated_or_torchserves_default(yaml: dict[str, Any], size: int) -> None:
    limits = plan(yaml={**yaml, "continuousBatching": True}).limits

    assert (limits.continuous, limits.max_batch_size) == (True, size)


def test_a_running_batch_does_not_go_with_sequences() -> None:
    with pytest.raises(ConfigurationError, match="continuousBatching and sequenceBatching together are not supported"):
        plan(yaml={"continuousBatching": True, "sequenceBatching": True})


SEQUENCES = {"sequenceBatching": True, "sequenceMaxIdleMSec": 1000}


def test_a_model_that_keeps_state_has_as_many_workers_as_it_says_and_none_is_replaced() -> None:
    options = ServingOptions(BatchOptions(), max_requests=100, max_memory_mib=2048)

    made = plan(yaml={**SEQUENCES, "minWorkers": 2, "maxWorkers": 3, "batchSize": 4}, options=options, devices=8)

    assert made.policy == PoolPolicy(workers=2, response_timeout_s=120, startup_timeout_s=120)
    assert made.sequences == SequenceLimits(max_sequences=12, max_idle_s=1.0)
