"""Bounds of the operator and of `isvc run`."""

from __future__ import annotations

from tests.hostile.limits.bound import Bound, Unit

_INGRESS = "tests/integration/local/test_ingress.py"

BOUNDS: tuple[Bound, ...] = (
    Bound(
        what="a text from outside that is quoted as one line",
        constant="isvc_operator.limits:LINE_BYTES",
        unit=Unit.BYTES,
        beyond="it is cut, with … at its end",
        test="tests/unit/operator_core/test_text.py::test_a_text_is_cut_at_its_bound",
    ),
    Bound(
        what="`isvc run`: connections to the ingress that are open at a time",
        constant="isvc_operator.limits:INGRESS_CONNECTIONS",
        unit=Unit.COUNT,
        beyond="503 with Retry-After; the connection is closed",
        test=f"{_INGRESS}::test_a_caller_too_many_is_told_so_and_the_others_go_on",
    ),
    Bound(
        what="`isvc run`: for a request's head, for the next part of its body, and between two requests",
        constant="isvc_operator.limits:INGRESS_IDLE_SECONDS",
        unit=Unit.SECONDS,
        beyond="408 where the body stops; else the connection is closed",
        test=f"{_INGRESS}::test_a_body_that_stops_coming_is_answered_with_408",
    ),
    Bound(
        what="`isvc run`: for what a caller still sends who has had the answer already",
        constant="isvc_operator.limits:INGRESS_LINGER_SECONDS",
        unit=Unit.SECONDS,
        beyond="the connection is closed",
        test=f"{_INGRESS}::test_one_who_waits_to_be_told_to_go_on_is_refused_before_the_body_is_sent",
    ),
    Bound(
        what="`isvc run`: request line, and each header field",
        constant="isvc_operator.limits:INGRESS_HEADER_BYTES",
        unit=Unit.BYTES,
        beyond="400; the connection is closed",
        test=f"{_INGRESS}::test_a_head_beyond_the_limits_is_refused",
    ),
    Bound(
        what="`isvc run`: header fields of a request",
        constant="isvc_operator.limits:INGRESS_HEADERS",
        unit=Unit.COUNT,
        beyond="400; the connection is closed",
        test=f"{_INGRESS}::test_a_head_beyond_the_limits_is_refused",
    ),
)
