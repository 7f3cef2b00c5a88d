"""Bounds of `kserve-torchserve`, TorchServe behind its adapter."""

from __future__ import annotations

from tests.hostile.limits.bound import Bound, Unit

_WATCH = "tests/unit/torchserve_adapter/test_watch.py::"

BOUNDS = (
    Bound(
        what="deaths of a worker in a row without a response of its model in between",
        constant="torchserve_adapter.limits:MAX_DEATHS",
        unit=Unit.COUNT,
        beyond="the pod ends with exit code 4 and the cause; a model that was registered at run time becomes"
        " unavailable instead",
        test=f"{_WATCH}test_five_deaths_in_a_row_end_it_though_it_was_ready_after_each",
    ),
    Bound(
        what="time, in addition to startupTimeout, for which TorchServe tries to start a worker, with growing delays",
        constant="torchserve_adapter.limits:MAX_WITHOUT_WORKER",
        unit=Unit.SECONDS,
        beyond="the same as after too many deaths",
        test=f"{_WATCH}test_a_worker_that_torchserve_has_given_up_on_ends_it",
    ),
    Bound(
        what="connections to the port of TorchServe's management API",
        constant="torchserve_adapter.limits:MAX_MANAGEMENT_CONNECTIONS",
        unit=Unit.COUNT,
        beyond="the same as for HTTP connections",
        test="tests/unit/data_plane/test_connections.py::test_the_longest_idle_makes_room",
    ),
    Bound(
        what="a line of TorchServe's log, which has what handlers print",
        constant="torchserve_adapter.limits:MAX_LOG_LINE",
        unit=Unit.BYTES,
        beyond="the rest of the line is left out",
        test="tests/unit/torchserve_adapter/test_log.py::test_a_line_is_cut_and_what_follows_it_is_read",
    ),
)
