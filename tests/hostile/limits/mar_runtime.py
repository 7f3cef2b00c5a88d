"""Bounds of `isvc-mar`, the runtime without Java."""

from __future__ import annotations

from tests.hostile.limits.bound import Bound, Unit

_RESTARTS = "tests/unit/mar_runtime/test_restarts.py::"

BOUNDS = (
    Bound(
        what="deaths of a model's workers in a row without a response in between; workers that die "
        "together count as one",
        constant="mar_runtime.limits:MAX_DEATHS",
        unit=Unit.COUNT,
        beyond="the server ends with exit code 4 and the cause; a model that was loaded at run time becomes "
        "unavailable instead",
        test=f"{_RESTARTS}test_workers_that_keep_dying_are_given_up",
    ),
    Bound(
        what="delay before a dead worker is restarted, the first time",
        constant="mar_runtime.limits:RESTART_PAUSE",
        unit=Unit.SECONDS,
        beyond="requests wait",
        test=f"{_RESTARTS}test_each_pause_is_longer_until_there_is_no_point",
    ),
    Bound(
        what="factor by which that delay grows each further time in a row",
        constant="mar_runtime.limits:RESTART_GROWTH",
        unit=Unit.TIMES,
        beyond="requests wait",
        test=f"{_RESTARTS}test_each_pause_is_longer_until_there_is_no_point",
    ),
    Bound(
        what="maximum of that delay",
        constant="mar_runtime.limits:MAX_RESTART_PAUSE",
        unit=Unit.SECONDS,
        beyond="requests wait",
        test=f"{_RESTARTS}test_what_cannot_be_started_is_tried_again_for_long_with_bounded_pauses",
    ),
    Bound(
        what="time for which a worker start is retried while files, processes or memory are short",
        constant="mar_runtime.limits:MAX_START_TRIES_TIME",
        unit=Unit.SECONDS,
        beyond="the same as after too many deaths",
        test=f"{_RESTARTS}test_not_for_ever",
    ),
    Bound(
        what="time in which other models may fail as well, once one has failed at the start",
        constant="mar_runtime.limits:FAIL_TOO_TIME",
        unit=Unit.SECONDS,
        beyond="the server ends with the failures of until then, and those of others are found at the next start",
        test="tests/unit/mar_runtime/test_models.py::test_a_failure_waits_for_no_slow_model",
    ),
)
