"""The environment that TorchServe and its workers are started with."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from data_plane.model_server import libraries
from torchserve_adapter.launch import prepare

AROUND = {"PATH": os.environ["PATH"]}


@pytest.mark.parametrize(
    ("given", "limit", "threads"),
    [({}, 2, "2"), ({}, None, None), ({"OMP_NUM_THREADS": "1"}, 2, "1"), ({"OMP_NUM_THREADS": "1"}, None, "1")],
    ids=["by the limit", "without a limit torch's own", "the user's", "the user's, without a limit"],
)
def test_torch_has_no_more_threads_than_the_container_processors(
    tmp_path: Path, given: Mapping[str, str], limit: int | None, threads: str | None
) -> None:
    launch = prepare(
        tmp_path, {"model_store": str(tmp_path)}, {**AROUND, **given}, processor_limit=limit, batch_sizes={}
    )

    assert launch.environment.get("OMP_NUM_THREADS") == threads


def test_the_libraries_of_handlers_have_their_settings_unless_the_user_has_others(tmp_path: Path) -> None:
    given = {**AROUND, "OMP_WAIT_POLICY": "ACTIVE"}

    launch = prepare(tmp_path, {"model_store": str(tmp_path)}, given, processor_limit=None, batch_sizes={})

    assert launch.environment == {**libraries.ENVIRONMENT, "PYTHONUNBUFFERED": "1", **given}


def test_what_would_override_the_effective_configuration_is_left_out(tmp_path: Path) -> None:
    launch = prepare(
        tmp_path,
        {"model_store": str(tmp_path)},
        {**AROUND, "TS_CONFIG_FILE": "/elsewhere"},
        processor_limit=None,
        batch_sizes={},
    )

    assert "TS_CONFIG_FILE" not in launch.environment
