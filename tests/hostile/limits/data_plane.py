"""Bounds of the server that both runtimes and the SDK for transformers share."""

from __future__ import annotations

from tests.hostile.limits.bound import Bound, Unit

BOUNDS = (
    Bound(
        what="request line and headers of a request",
        constant="transformer_sdk.limits:MAX_HEAD",
        unit=Unit.BYTES,
        beyond="431; the connection is closed",
        test="tests/unit/transformer_sdk/test_connection.py::test_a_head_at_the_limit_is_taken_and_a_larger_one_refused",
    ),
)
