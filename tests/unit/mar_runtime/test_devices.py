"""On which GPUs an archive's workers run."""

from __future__ import annotations

from typing import Any

import pytest

from data_plane.model_server.errors import ConfigurationError
from mar_runtime.configuration.devices import GpuTurns, choose


@pytest.mark.parametrize(
    ("yaml", "gpus", "chosen"),
    [
        ({}, 2, None),
        ({}, 0, ()),
        ({"deviceType": "cpu"}, 2, ()),
        ({"deviceType": "CPU", "deviceIds": [1]}, 2, ()),
        ({"deviceType": "gpu"}, 2, None),
        ({"deviceType": "gpu"}, 0, ()),
        ({"deviceIds": [1]}, 2, (1,)),
        ({"deviceIds": [3, 0]}, 4, (3, 0)),
        ({"deviceIds": []}, 2, None),
        ({"deviceType": "gpu", "deviceIds": [7]}, 0, ()),
        ({"parallelType": "", "torchrun": {"nproc-per-node": 1}}, 1, None),
    ],
)
def test_an_archive_has_the_gpus_that_it_asks_for(
    yaml: dict[str, Any], gpus: int, chosen: tuple[int, ...] | None
) -> None:
    assert choose("m.mar", yaml, gpus) == chosen


@pytest.mark.parametrize("wanted", [[2], [0, -1], ["0"], [True], 1, "0,1"])
def test_gpus_that_are_not_there_are_refused(wanted: object) -> None:
    with pytest.raises(ConfigurationError) as raised:
        choose("m.mar", {"deviceIds": wanted}, 2)

    assert str(raised.value) == f"deviceIds of m.mar is {wanted!r}; write a list of numbers, the GPUs here are 0, 1."


def test_workers_of_all_models_take_gpus_in_turn() -> None:
    turns = GpuTurns(3)

    assert [turns.take(workers) for workers in (1, 4, 1)] == [(0, 1, 2), (1, 2, 0), (2, 0, 1)]
