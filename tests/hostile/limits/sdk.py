"""Bounds of the SDK for transformers, beside those of the server."""

from __future__ import annotations

from tests.hostile.limits.bound import Bound, Unit

_CLIENT = "tests/integration/kserve_sdk/test_client.py::"

BOUNDS: tuple[Bound, ...] = (
    Bound(
        what="body of a request to a server that is built with the SDK",
        constant="data_plane.limits:MAX_SDK_REQUEST",
        unit=Unit.BYTES,
        setting="`--max_request_size`",
        beyond="413; the connection is closed",
        test="tests/unit/data_plane/test_app.py::test_a_body_over_the_limit_is_read_to_its_end_and_refused",
    ),
    Bound(
        what="a predictor's response that is read as a whole; its headers have the limit of a request's",
        constant="data_plane.limits:MAX_RESPONSE",
        unit=Unit.BYTES,
        beyond="502 that names the predictor; its connection is closed",
        test=f"{_CLIENT}test_an_answer_over_the_bound_is_given_up",
    ),
    Bound(
        what="a predictor's streamed response that waits for a slow client",
        constant="data_plane.limits:MAX_WAITING_PIECES",
        unit=Unit.BYTES,
        beyond="the predictor is slowed down",
        test="tests/integration/kserve_sdk/test_streams.py::test_a_reader_who_is_slow_slows_the_predictor_down",
    ),
    Bound(
        what="connections to one predictor",
        constant="data_plane.limits:MAX_PREDICTOR_CONNECTIONS",
        unit=Unit.COUNT,
        beyond="requests wait for one; 504 when their time is over",
        test=f"{_CLIENT}test_who_waits_for_a_connection_in_vain_is_told",
    ),
    Bound(
        what="delay between two attempts to connect to a predictor",
        constant="data_plane.limits:MAX_RETRY_PAUSE",
        unit=Unit.SECONDS,
        beyond="the attempts end with the request's time: 503",
        test=f"{_CLIENT}test_attempts_to_connect_end_with_the_requests_time_however_many_there_may_be",
    ),
    Bound(
        what="time for a model's own `healthy` to return",
        constant="data_plane.limits:HEALTHY_TIMEOUT",
        unit=Unit.SECONDS,
        beyond="the model is not healthy: 503",
        test="tests/unit/kserve_sdk/test_lifecycle.py::test_a_model_that_does_not_say_whether_it_is_ready_is_not",
    ),
    Bound(
        what="requests that wait for each thread of sync hooks",
        constant="data_plane.limits:HOOKS_WAITING",
        unit=Unit.COUNT,
        setting="`--max_threads`, for more threads",
        beyond="503 with `Retry-After`",
        test="tests/unit/kserve_sdk/test_hooks_in_time.py"
        "::test_when_all_threads_hang_and_too_many_wait_the_rest_is_told_so",
    ),
)
