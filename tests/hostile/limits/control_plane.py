"""Bounds of the operator and of `isvc run`."""

from __future__ import annotations

from tests.hostile.limits.bound import Bound, Unit

_SIZE = "tests/unit/api/test_size.py"
_SERVICES = "tests/unit/operator_core/test_hostile_services.py"
_INGRESS = "tests/integration/local/test_ingress.py"

BOUNDS: tuple[Bound, ...] = (
    Bound(
        what="levels of objects and lists inside of one another, in a service, a runtime or a JSON annotation",
        constant="isvc_operator.limits:NESTING",
        unit=Unit.COUNT,
        beyond="the service is not Ready: `InvalidPredictorSpec`, with the place",
        test=f"{_SIZE}::test_what_is_nested_deeper_is_named_with_its_place",
    ),
    Bound(
        what="fields and items, on all levels, of such an object",
        constant="isvc_operator.limits:VALUES",
        unit=Unit.COUNT,
        beyond="the service is not Ready: `InvalidPredictorSpec`, with the place",
        test=f"{_SIZE}::test_what_has_more_values_is_named_with_the_place_where_there_are_too_many",
    ),
    Bound(
        what="secrets that a service account lists, where a service downloads in its name",
        constant="isvc_operator.limits:SECRETS",
        unit=Unit.COUNT,
        setting="name one secret in the annotation `serving.kserve.io/storageSecretName`",
        beyond="the service is not Ready: `InvalidCredentials`",
        test="tests/unit/operator_core/resolve/test_storage_request.py::"
        "test_of_an_account_that_lists_too_many_secrets_none_is_read",
    ),
    Bound(
        what="characters of a `storageUri`",
        constant="isvc_operator.limits:URI_CHARACTERS",
        unit=Unit.COUNT,
        beyond="the service is not Ready: `InvalidPredictorSpec`",
        test=f"{_SERVICES}::test_a_storage_uri_that_is_too_long_is_told",
    ),
    Bound(
        what="characters that placeholders such as `{{.Labels.x}}` put into a container",
        constant="isvc_operator.limits:FILLED_CHARACTERS",
        unit=Unit.COUNT,
        beyond="the service is not Ready: `InvalidPredictorSpec`",
        test=f"{_SERVICES}::test_what_placeholders_put_in_is_bounded",
    ),
    Bound(
        what="for an answer of the API server to the operator",
        constant="isvc_operator.limits:API_ANSWER_SECONDS",
        unit=Unit.SECONDS,
        beyond="the service is tried again, later each time",
        test="tests/unit/operator_core/kube/test_client.py::test_no_answer_is_an_error_without_a_status",
    ),
    Bound(
        what="fields or problems that one message lists",
        constant="isvc_operator.limits:NAMED",
        unit=Unit.COUNT,
        beyond="the message says that there are others",
        test=f"{_SERVICES}::test_of_many_unknown_fields_only_those_that_are_told_are_looked_into",
    ),
    Bound(
        what="a condition's message in the status",
        constant="isvc_operator.limits:MESSAGE_BYTES",
        unit=Unit.BYTES,
        beyond="it is cut, with … at its end",
        test="tests/unit/operator_core/observe/test_conditions.py::test_a_message_is_bounded_and_nothing_in_it_acts",
    ),
    Bound(
        what="an Event's message",
        constant="isvc_operator.limits:EVENT_BYTES",
        unit=Unit.BYTES,
        beyond="it is cut, with … at its end; the status has all of it",
        test="tests/unit/operator_core/observe/test_events.py::test_a_long_message_is_cut_to_the_bytes_that_an_event_may_have",
    ),
    Bound(
        what="the last ten lines of a container's log, as they are read",
        constant="isvc_operator.limits:LOG_READ_BYTES",
        unit=Unit.BYTES,
        beyond="the last line alone is read, and of that the beginning",
        test="tests/unit/operator_core/kube/test_pod_details.py::"
        "test_a_line_that_is_too_long_does_not_hide_the_one_after_it",
    ),
    Bound(
        what="what a container printed, its last words, words of the API server, and a record of the operator's log",
        constant="isvc_operator.limits:LOG_BYTES",
        unit=Unit.BYTES,
        beyond="of a log and a traceback the end is kept, of the others the beginning",
        test="tests/unit/operator_core/kube/test_pod_details.py::test_of_a_long_line_the_end_is_kept",
    ),
    Bound(
        what="the line in which a storage-initializer says how far it is",
        constant="isvc_operator.limits:PROGRESS_BYTES",
        unit=Unit.BYTES,
        beyond="it is cut, with … at its end",
        test="tests/unit/operator_core/observe/test_component.py::test_a_line_of_progress_is_bounded_and_one_line",
    ),
    Bound(
        what="a text from outside that is quoted as one line",
        constant="isvc_operator.limits:LINE_BYTES",
        unit=Unit.BYTES,
        beyond="it is cut, with … at its end",
        test="tests/unit/operator_core/test_text.py::test_a_text_is_cut_at_its_bound",
    ),
    Bound(
        what="`isvc run`: what a process prints, as one line",
        constant="isvc_operator.limits:OUTPUT_LINE_BYTES",
        unit=Unit.BYTES,
        beyond="it is passed on as several lines",
        test="tests/unit/local/test_output.py::test_a_long_line_comes_in_several",
    ),
    Bound(
        what="`isvc run`: connections to the ingress that are open at a time",
        constant="isvc_operator.limits:INGRESS_CONNECTIONS",
        unit=Unit.COUNT,
        beyond="the one without a request for longest is closed; where each has one, 503 with Retry-After",
        test=f"{_INGRESS}::test_a_caller_too_many_is_told_so_and_the_others_go_on",
    ),
    Bound(
        what="`isvc run`: for a caller to read more of its answer",
        constant="isvc_operator.limits:INGRESS_UNREAD_SECONDS",
        unit=Unit.SECONDS,
        beyond="the connection is broken off",
        test=f"{_INGRESS}::test_a_caller_who_does_not_read_the_answer_is_given_up",
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
