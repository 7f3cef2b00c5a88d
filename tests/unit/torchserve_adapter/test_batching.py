"""Who is asked how large a batch may be, and what TorchServe is told so that it never waits for one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from data_plane.batching.limits import BatchLimits
from torchserve_adapter.batching import BatchRequirements, set_batch_sizes
from torchserve_compat.store.archives import Archive
from torchserve_compat.store.properties import Draft
from torchserve_compat.store.settings import BatchOptions

ARCHIVES = {"a.mar": Archive("a.mar", "a"), "b.mar": Archive("b.mar", "b", model_version="2.0")}
WHY = "the adapter forms the batches, each one request to TorchServe, which need not wait for more"


def models(**parameters: Any) -> dict[str, Any]:
    return {"a": {"1.0": {"marName": "a.mar", **parameters}}}


def in_models(**parameters: Any) -> dict[str, str]:
    return {"load_models": "all", "models": json.dumps(models(**parameters))}


def in_snapshot(**parameters: Any) -> dict[str, str]:
    return {"model_snapshot": json.dumps({"modelCount": 1, "models": models(**parameters)})}


def size(properties: dict[str, str], yaml: dict[str, Any] | None = None, options: BatchOptions | None = None) -> int:
    requirements = BatchRequirements(options or BatchOptions(), properties, {"a.mar": yaml or {}})
    return requirements.limits("a", "1.0", "a.mar").max_batch_size


@pytest.mark.parametrize(
    ("properties", "yaml", "expected"),
    [
        ({}, {}, 32),
        (in_models(batchSize=4), {}, 4),
        (in_models(batchSize=1), {}, 1),
        ({"load_models": "all", "models": '{"a": {"1.0": {"batchSize": 4}}}'}, {}, 4),
        (in_models(maxBatchDelay=100), {}, 32),
        (in_models(batchSize=4), {"batchSize": 8}, 8),  # as TorchServe has it: the archive's own wins over `models`,
        (in_snapshot(batchSize=4), {"batchSize": 8}, 4),  # but not over a snapshot
        (in_snapshot(), {"batchSize": 8}, 8),
        ({}, {"batchSize": 8}, 8),
        ({}, {"batchSize": "eight"}, 32),
        ({}, {"batchSize": True}, 32),
    ],
)
def test_the_batch_size_is_the_one_that_torchserve_would_go_by(
    properties: dict[str, str], yaml: dict[str, Any], expected: int
) -> None:
    assert size(properties, yaml) == expected


def test_a_snapshots_lone_version_may_have_another_name_than_the_archives() -> None:
    requirements = BatchRequirements(BatchOptions(), in_snapshot(batchSize=4), {})

    assert requirements.limits("a", "7.0", "a.mar").max_batch_size == 4


def test_an_archive_says_how_long_its_clients_wait() -> None:
    requirements = BatchRequirements(BatchOptions(), {}, {"a.mar": {"clientTimeoutInMills": 1500}})

    assert requirements.limits("a", "1.0", "a.mar").timeout_s == 1.5


def test_the_flags_win() -> None:
    options = BatchOptions(max_batch_size=16, max_latency_ms=50, timeout_ms=2000)
    requirements = BatchRequirements(options, {**in_models(batchSize=4), "job_queue_size": "7"}, {})

    limits = BatchLimits(max_batch_size=16, max_latency_s=0.05, queue_size=7, timeout_s=2.0)
    assert requirements.limits("a", "1.0", "a.mar") == limits
    assert requirements.of_registration(8, {}, "") == (limits, 16)


@pytest.mark.parametrize(
    ("properties", "yaml", "handler", "merges"),
    [
        ({}, {}, "handler.py", False),
        (in_models(maxBatchDelay=50), {}, "handler.py", False),
        (in_models(batchSize=4), {}, "handler.py", True),
        (in_snapshot(batchSize=4), {}, "handler.py", True),
        ({}, {"batchSize": 4}, "handler.py", True),
        ({}, {}, "image_classifier", True),
        ({}, {}, "image_classifier.py", False),  # the user's own
    ],
)
def test_rows_are_merged_where_that_was_asked_for_or_the_handler_is_made_for_it(
    properties: dict[str, str], yaml: dict[str, Any], handler: str, merges: bool
) -> None:
    requirements = BatchRequirements(BatchOptions(), properties, {"a.mar": yaml}, {"a.mar": handler})

    assert requirements.limits("a", "1.0", "a.mar").merges_rows is merges


NO_SIZES = (0, "0", "-1", "1.5", "2147483648", "", "abc", "9" * 5000)


@pytest.mark.parametrize(
    ("batch_size", "yaml", "handler", "limits", "stated"),
    [
        (None, {}, "handler.py", BatchLimits(merges_rows=False), 1),
        (None, {}, "text_classifier", BatchLimits(), 1),
        ("8", {}, "handler.py", BatchLimits(max_batch_size=8), 8),
        (None, {"batchSize": 6}, "handler.py", BatchLimits(max_batch_size=6), 6),
        (8, {"batchSize": 6}, "handler.py", BatchLimits(max_batch_size=8), 8),
        *((size, {"batchSize": 6}, "handler.py", BatchLimits(max_batch_size=6), 6) for size in NO_SIZES),
        *((size, {"batchSize": 0}, "handler.py", BatchLimits(merges_rows=False), 1) for size in NO_SIZES),
        (
            None, {"jobQueueSize": 7, "clientTimeoutInMills": 1500}, "handler.py",
            BatchLimits(merges_rows=False, queue_size=7, timeout_s=1.5), 1,
        ),
        (
            None, {"continuousBatching": True}, "handler.py",
            BatchLimits(max_batch_size=1, merges_rows=False, continuous=True), 1,
        ),
    ],
)  # fmt: skip
def test_a_model_that_is_registered_has_the_settings_of_one_that_is_there_at_the_start(
    batch_size: object, yaml: dict[str, Any], handler: str, limits: BatchLimits, stated: int
) -> None:
    requirements = BatchRequirements(BatchOptions(), in_models(batchSize=4), {})

    assert requirements.of_registration(batch_size, yaml, handler) == (limits, stated)


@pytest.mark.parametrize(("setting", "written"), [("models", in_models), ("model_snapshot", in_snapshot)])
def test_torchserve_gets_batches_of_one(setting: str, written: Any) -> None:
    draft = Draft(written(batchSize=4, maxBatchDelay=5000))

    set_batch_sizes(draft, ARCHIVES, requirements(draft))

    assert draft.properties == written(batchSize=1, maxBatchDelay=5000)
    assert [(change.setting, change.why) for change in draft.changes] == [(setting, f"batchSize 1: {WHY}")]


@pytest.mark.parametrize("properties", [{"load_models": "all"}, in_models(batchSize=1), in_snapshot(batchSize=1)])
def test_what_does_not_batch_stays_to_the_letter(properties: dict[str, str]) -> None:
    draft = Draft(dict(properties))

    set_batch_sizes(draft, ARCHIVES, requirements(draft, {"batchSize": 1}))

    assert (draft.properties, draft.changes) == (properties, [])


def test_an_archive_that_batches_by_itself_is_loaded_by_a_snapshot_which_it_does_not_win_over() -> None:
    draft = Draft(
        {
            "model_store": "/store",
            "load_models": "all",
            "default_workers_per_model": "3",
            "models": json.dumps(models(responseTimeout=60, minWorkers=2, maxWorkers=2)),
        }
    )
    yaml = {"batchSize": 8, "maxBatchDelay": 50, "minWorkers": 1, "maxWorkers": 4, "responseTimeout": 30, "own": {}}

    set_batch_sizes(draft, ARCHIVES, requirements(draft, yaml))

    assert json.loads(draft.properties["model_snapshot"]) == {
        "modelCount": 2,
        "models": {
            "a": {
                "1.0": {
                    "marName": "a.mar",
                    "minWorkers": 1,
                    "maxWorkers": 4,
                    "batchSize": 1,
                    "maxBatchDelay": 50,
                    "responseTimeout": 30,
                    "defaultVersion": True,
                }
            },
            "b": {
                "2.0": {
                    "marName": "b.mar",
                    "minWorkers": 3,
                    "maxWorkers": 3,
                    "batchSize": 1,
                    "maxBatchDelay": 100,
                    "defaultVersion": True,
                }
            },
        },
    }
    assert [change.why for change in draft.changes] == [f"batchSize 1: {WHY}"]


def test_workers_of_a_yaml_that_do_not_fit_are_left_out_as_torchserve_does() -> None:
    draft = Draft({"model_store": "/store", "load_models": "a.mar"})

    set_batch_sizes(draft, ARCHIVES, requirements(draft, {"batchSize": 8, "minWorkers": 2, "maxWorkers": 1}))

    (parameters,) = json.loads(draft.properties["model_snapshot"])["models"]["a"].values()
    assert (parameters["minWorkers"], parameters["maxWorkers"]) == (1, 1)


def requirements(draft: Draft, yaml: Any = None, options: BatchOptions | None = None) -> BatchRequirements:
    """Of a user who wrote what the draft has, and `yaml` into the archive a.mar."""
    return BatchRequirements(options or BatchOptions(), dict(draft.properties), {"a.mar": yaml or {}})


@pytest.mark.parametrize(
    ("yaml", "options", "size"),
    [({}, BatchOptions(), 1), ({"batchSize": 8}, BatchOptions(), 8), ({"batchSize": 8}, BatchOptions(4), 4)],
)
def test_a_running_batch_is_torchserves_to_form_and_waits_for_nobody(
    yaml: dict[str, Any], options: BatchOptions, size: int
) -> None:
    draft = Draft({"model_store": "/store", "load_models": "all"})
    yaml = {**yaml, "continuousBatching": True, "maxBatchDelay": 50}

    set_batch_sizes(draft, ARCHIVES, requirements(draft, yaml, options))

    made = json.loads(draft.properties["model_snapshot"])["models"]
    assert {name: one["1.0"] for name, one in made.items() if name == "a"} == {
        "a": {
            "marName": "a.mar", "minWorkers": 1, "maxWorkers": 1, "batchSize": size, "maxBatchDelay": 0,
            "defaultVersion": True,
        }
    }  # fmt: skip
    assert made["b"]["2.0"]["batchSize"] == 1


def test_a_running_batch_of_a_snapshot_keeps_its_size() -> None:
    draft = Draft(in_snapshot(batchSize=4, marName="a.mar"))

    set_batch_sizes(draft, ARCHIVES, requirements(draft, {"continuousBatching": True}))

    assert draft.properties == in_snapshot(batchSize=4, maxBatchDelay=0, marName="a.mar")
    assert [change.why for change in draft.changes] == [
        "maxBatchDelay 0: no request waits for others: they join the running batch"
    ]


STATEFUL = {"batchSize": 4, "sequenceBatching": True, "sequenceMaxIdleMSec": 1000}


@pytest.mark.parametrize("written", [{}, {"load_models": "all"}, in_models(batchSize=4), in_snapshot(batchSize=4)])
def test_torchserve_itself_makes_the_batches_of_an_archive_that_keeps_state(written: dict[str, str]) -> None:
    draft = Draft(dict(written))

    set_batch_sizes(draft, ARCHIVES, requirements(draft, STATEFUL))

    assert draft.properties == written


def test_beside_one_that_batches_an_archive_that_keeps_state_has_its_own_size_in_the_snapshot() -> None:
    draft = Draft({"load_models": "all", "model_store": "/store"})

    yaml = {"a.mar": STATEFUL, "b.mar": {"batchSize": 8}}
    set_batch_sizes(draft, ARCHIVES, BatchRequirements(BatchOptions(), dict(draft.properties), yaml))

    made = json.loads(draft.get("model_snapshot"))["models"]
    assert (made["a"]["1.0"]["batchSize"], made["b"]["2.0"]["batchSize"]) == (4, 1)
