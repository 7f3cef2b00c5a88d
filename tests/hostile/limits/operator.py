"""Bounds of the operator."""

from __future__ import annotations

from tests.hostile.limits.bound import Bound, Unit

_SIZE = "tests/unit/api/test_size.py"
_SERVICES = "tests/unit/operator_core/test_hostile_services.py"

BOUNDS: tuple[Bound, ...] = (
    Bound(
        what="nesting depth of a service, a runtime or a JSON annotation",
        constant="isvc_operator.limits:NESTING",
        unit=Unit.COUNT,
        beyond="the service is not Ready: `InvalidPredictorSpec`, with the place",
        test=f"{_SIZE}::test_what_is_nested_deeper_is_named_with_its_place",
    ),
    Bound(
        what="fields and items of such an object, at all levels",
        constant="isvc_operator.limits:VALUES",
        unit=Unit.COUNT,
        beyond="the service is not Ready: `InvalidPredictorSpec`, with the place",
        test=f"{_SIZE}::test_what_has_more_values_is_named_with_the_place_where_there_are_too_many",
    ),
    Bound(
        what="text of such an object: names of fields and strings, at all levels",
        constant="isvc_operator.limits:TEXT_BYTES",
        unit=Unit.BYTES,
        beyond="the service is not Ready: `InvalidPredictorSpec`, with the place; its children stay as they are",
        test=f"{_SIZE}::test_what_has_more_text_is_named_with_the_place_where_there_is_too_much",
    ),
    Bound(
        what="an object of a service, as JSON, that does not count among the large ones of its namespace",
        constant="isvc_operator.limits:LARGE_BYTES",
        unit=Unit.BYTES,
        beyond="it counts, and nothing that is made from it is remembered",
        test="tests/unit/operator_core/reconcile/test_large.py::"
        "test_a_large_service_is_served_and_nothing_of_it_is_remembered",
    ),
    Bound(
        what="large objects of services in one namespace, together",
        constant="isvc_operator.limits:NAMESPACE_BYTES",
        unit=Unit.BYTES,
        setting="make them smaller; bound the number of services by a ResourceQuota",
        beyond="the services that come last are not Ready: `InvalidPredictorSpec`; looked at again after 300 s",
        test="tests/unit/operator_core/reconcile/test_large.py::"
        "test_one_for_which_its_namespace_has_no_room_waits_until_there_is",
    ),
    Bound(
        what="secrets of a service account whose service downloads a model",
        constant="isvc_operator.limits:SECRETS",
        unit=Unit.COUNT,
        setting="name one secret in the annotation `serving.kserve.io/storageSecretName`",
        beyond="the service is not Ready: `InvalidCredentials`",
        test="tests/unit/operator_core/resolve/storage/test_requests.py::"
        "test_of_an_account_that_lists_too_many_secrets_none_is_read",
    ),
    Bound(
        what="characters of a `storageUri`",
        constant="isvc_operator.limits:URI_CHARACTERS",
        unit=Unit.COUNT,
        beyond="the service is not Ready: `InvalidPredictorSpec`",
        test=f"{_SERVICES}::test_a_storage_uri_that_is_too_long_is_reported",
    ),
    Bound(
        what="environment variables of a container",
        constant="isvc_operator.limits:VARIABLES",
        unit=Unit.COUNT,
        beyond="the API server refuses the object, because the CRD has this limit",
        test=f"{_SIZE}::test_a_container_has_only_so_many_variables",
    ),
    Bound(
        what="time that pods have to end, where a `timeout` asks for more than 30 s",
        constant="isvc_operator.limits:GRACE_SECONDS",
        unit=Unit.SECONDS,
        setting="`terminationGracePeriodSeconds` of the component",
        beyond="requests that take longer are cut off when their pod is replaced",
        test="tests/golden/test_fields.py::test_what_is_changed_by_fields_of",
    ),
    Bound(
        what="characters that placeholders such as `{{.Labels.x}}` insert into a container",
        constant="isvc_operator.limits:FILLED_CHARACTERS",
        unit=Unit.COUNT,
        beyond="the service is not Ready: `InvalidPredictorSpec`",
        test=f"{_SERVICES}::test_what_placeholders_insert_is_limited",
    ),
    Bound(
        what="hosts of a service with `enableGatewayApi`",
        constant="isvc_operator.limits:ROUTE_HOSTS",
        unit=Unit.COUNT,
        beyond="the configuration is refused",
        test="tests/golden/test_fields.py::test_what_is_said_about",
    ),
    Bound(
        what="time for the API server's response to the operator",
        constant="isvc_operator.limits:API_RESPONSE_SECONDS",
        unit=Unit.SECONDS,
        beyond="the reconcile is retried with backoff",
        test="tests/unit/operator_core/kube/test_client.py::test_no_response_is_an_error_without_a_status",
    ),
    Bound(
        what="time that an API server may ask the operator to wait (`Retry-After`)",
        constant="isvc_operator.limits:RETRY_AFTER_SECONDS",
        unit=Unit.SECONDS,
        beyond="the operator waits so long, and asks again",
        test="tests/unit/operator_core/kube/test_pause.py::"
        "test_a_pause_is_never_shortened_and_never_longer_than_its_bound",
    ),
    Bound(
        what="reconciles that have failed and are tried again, a second",
        constant="isvc_operator.limits:RETRIES_PER_SECOND",
        unit=Unit.COUNT,
        beyond="each service is tried again less often",
        test="tests/unit/operator_core/controller/test_worker.py::test_the_more_services_fail_the_less_often_each_one_is_retried",
    ),
    Bound(
        what="time between two attempts to reconcile a service that keeps failing",
        constant="isvc_operator.limits:LONGEST_BACKOFF_SECONDS",
        unit=Unit.SECONDS,
        beyond="it is tried again",
        test="tests/unit/operator_core/controller/test_worker.py::"
        "test_however_many_services_fail_each_one_is_retried_within_a_minute",
    ),
    Bound(
        what="fields or problems in one message",
        constant="isvc_operator.limits:NAMED",
        unit=Unit.COUNT,
        beyond="the message says that there are more",
        test=f"{_SERVICES}::test_of_many_unknown_fields_only_the_reported_ones_are_compared",
    ),
    Bound(
        what="a condition's message in the status",
        constant="isvc_operator.limits:MESSAGE_BYTES",
        unit=Unit.BYTES,
        beyond="it is truncated and ends with …",
        test="tests/unit/operator_core/observe/test_conditions.py::test_a_message_is_bounded_and_nothing_in_it_acts",
    ),
    Bound(
        what="one response of the API server to the operator",
        constant="isvc_operator.limits:API_RESPONSE_BYTES",
        unit=Unit.BYTES,
        beyond="a list is requested in smaller pages; any other request has failed",
        test="tests/unit/operator_core/kube/test_client.py::test_a_response_that_is_too_large_is_not_kept",
    ),
    Bound(
        what="memory that one page of a list is expected to take",
        constant="isvc_operator.limits:LIST_BYTES",
        unit=Unit.BYTES,
        beyond="smaller pages are requested",
        test="tests/unit/operator_core/kube/test_watch_session.py::test_so_is_one_whose_objects_take_much_memory",
    ),
    Bound(
        what="one event of a watch",
        constant="isvc_operator.limits:WATCH_LINE_BYTES",
        unit=Unit.BYTES,
        beyond="the watch is opened again with backoff",
        test="tests/unit/operator_core/kube/test_watch_session.py::test_an_event_without_an_end_is_a_failure",
    ),
    Bound(
        what="silence on an open watch",
        constant="isvc_operator.limits:WATCH_IDLE_SECONDS",
        unit=Unit.SECONDS,
        beyond="the watch is opened again",
        test="tests/unit/operator_core/kube/test_watch_session.py::"
        "test_a_watch_on_which_nothing_comes_any_more_is_opened_again",
    ),
    Bound(
        what="silence on a watch of the operator",
        constant="isvc_operator.limits:WATCH_SILENT_SECONDS",
        unit=Unit.SECONDS,
        beyond="`/healthz` returns 503 with the watch's path, and the kubelet restarts the operator",
        test="tests/unit/operator_core/telemetry/test_health.py::test_a_watch_may_be_silent_for_a_while",
    ),
    Bound(
        what="time in which services wait and no reconcile begins or ends",
        constant="isvc_operator.limits:QUEUE_STILL_SECONDS",
        unit=Unit.SECONDS,
        beyond="`/healthz` returns 503, and the kubelet restarts the operator",
        test="tests/unit/operator_core/telemetry/test_health.py::test_the_queue_may_stand_still_for_a_while",
    ),
    Bound(
        what="time between two restores of a child that another client changes or deletes each time",
        constant="isvc_operator.limits:RESTORE_SECONDS",
        unit=Unit.SECONDS,
        beyond="the third restore in a row is followed by 2 s, each one after it by twice as long, up to this; "
        "`SpecNotApplied` is `True`",
        test="tests/unit/operator_core/reconcile/test_contested.py::"
        "test_a_child_that_another_client_changes_each_time_is_restored_ever_more_seldom",
    ),
    Bound(
        what="time until what the API server, or a webhook, does not keep of a child is applied again",
        constant="isvc_operator.limits:NOT_KEPT_SECONDS",
        unit=Unit.SECONDS,
        beyond="it is applied again; until then `SpecNotApplied` is `True` with the fields",
        test="tests/unit/operator_core/reconcile/test_contested.py::"
        "test_what_the_api_server_does_not_keep_is_applied_once_an_hour",
    ),
    Bound(
        what="an Event's message",
        constant="isvc_operator.limits:EVENT_BYTES",
        unit=Unit.BYTES,
        beyond="it is truncated and ends with …; the status has the complete message",
        test="tests/unit/operator_core/observe/test_events.py::test_a_long_message_is_cut_to_the_bytes_that_an_event_may_have",
    ),
    Bound(
        what="the last ten lines of a container's log",
        constant="isvc_operator.limits:LOG_READ_BYTES",
        unit=Unit.BYTES,
        beyond="only the beginning of the last line is read",
        test="tests/unit/operator_core/controller/test_pod_details.py::"
        "test_a_line_that_is_too_long_does_not_hide_the_one_after_it",
    ),
    Bound(
        what="text in a status or a log record: a container's output, its termination message, a message "
        "of the API server, a traceback",
        constant="isvc_operator.limits:LOG_BYTES",
        unit=Unit.BYTES,
        beyond="of a log and a traceback, the end is kept; of other texts, the beginning",
        test="tests/unit/operator_core/controller/test_pod_details.py::test_of_a_long_line_the_end_is_kept",
    ),
    Bound(
        what="the progress line of a storage-initializer",
        constant="isvc_operator.limits:PROGRESS_BYTES",
        unit=Unit.BYTES,
        beyond="it is truncated and ends with …",
        test="tests/unit/operator_core/observe/test_component.py::test_a_line_of_progress_is_bounded_and_one_line",
    ),
    Bound(
        what="an external text that is quoted in one line",
        constant="isvc_operator.limits:LINE_BYTES",
        unit=Unit.BYTES,
        beyond="it is truncated and ends with …",
        test="tests/unit/operator_core/test_text.py::test_a_text_is_cut_at_its_bound",
    ),
)
