"""Bounds of `kserve-torchserve`, TorchServe behind its adapter."""

from __future__ import annotations

from tests.hostile.limits.bound import Bound, Unit

_WATCH = "tests/unit/torchserve_adapter/test_watch.py::"

BOUNDS = (
    Bound(
        what="deaths of a worker in a row, without an answer of its model between them",
        constant="torchserve_adapter.limits:MAX_DEATHS",
        unit=Unit.COUNT,
        beyond="the pod ends with exit code 4 and the cause; a model registered while it runs is given up instead",
        test=f"{_WATCH}test_five_deaths_in_a_row_end_it_though_it_was_ready_after_each",
    ),
    Bound(
        what="time, beside startupTimeout, for which TorchServe tries to start a worker, with growing pauses",
        constant="torchserve_adapter.limits:MAX_WITHOUT_WORKER",
        unit=Unit.SECONDS,
        beyond="as after too many deaths",
        test=f"{_WATCH}test_a_worker_that_torchserve_has_given_up_on_ends_it",
    ),
    Bound(
        what="connections to the port on which models are registered",
        constant="torchserve_adapter.limits:MAX_MANAGEMENT_CONNECTIONS",
        unit=Unit.COUNT,
        beyond="as for connections over HTTP",
        test="tests/unit/data_plane/test_connections.py::test_the_longest_idle_makes_room",
    ),
)
