"""Bounds of the server that both runtimes and the SDK for transformers share."""

from __future__ import annotations

from tests.hostile.limits.bound import Bound, Unit

_SHAPES = "tests/unit/protocol_v2/test_shapes.py::"
_CONNECTIONS = "tests/unit/transformer_sdk/test_connections.py::"
_BUDGET = "tests/unit/transformer_sdk/test_budget.py::"
_FILES = "tests/unit/transformer_sdk/test_files.py::"
_FIELDS = "tests/unit/protocol_v2/test_fields.py::"
_JSON = "tests/unit/transformer_sdk/test_json_text.py::"

BOUNDS = (
    Bound(
        what="pieces of an answer that wait for a client who does not read them",
        constant="transformer_sdk.limits:MAX_STREAM_BUFFER",
        unit=Unit.BYTES,
        beyond="the answer breaks off, and a running batch goes on without the client",
        test="tests/unit/handler/test_stream.py"
        "::test_a_client_who_reads_too_slowly_is_given_up_and_nothing_is_kept_for_it",
    ),
    Bound(
        what="request line and headers of a request",
        constant="transformer_sdk.limits:MAX_HEAD",
        unit=Unit.BYTES,
        beyond="431; the connection is closed",
        test="tests/unit/transformer_sdk/test_connection.py::test_a_head_at_the_limit_is_taken_and_a_larger_one_refused",
    ),
    Bound(
        what="inputs, and requested outputs, of a v2 request",
        constant="transformer_sdk.limits:MAX_TENSORS",
        unit=Unit.COUNT,
        beyond="400",
        test=f"{_SHAPES}test_more_tensors_than_are_served_are_refused",
    ),
    Bound(
        what="parameters of a v2 request, of each tensor, and of each requested output",
        constant="transformer_sdk.limits:MAX_PARAMETERS",
        unit=Unit.COUNT,
        beyond="400",
        test=f"{_SHAPES}test_more_parameters_than_are_served_are_refused",
    ),
    Bound(
        what="sizes in a tensor's shape",
        constant="transformer_sdk.limits:MAX_DIMENSIONS",
        unit=Unit.COUNT,
        beyond="400",
        test="tests/unit/protocol_v2/test_rest_errors.py::test_shape_and_data_that_disagree_are_refused",
    ),
    Bound(
        what="nested lists that a tensor is, for each of its elements",
        constant="transformer_sdk.limits:TENSOR_LISTS_PER_ELEMENT",
        unit=Unit.TIMES,
        beyond="400; 500 for an output of a model",
        test=f"{_SHAPES}test_rows_within_rows_of_one_element_are_bounded",
    ),
    Bound(
        what="the same, of a tensor that has few elements or none",
        constant="transformer_sdk.limits:SMALL_TENSOR_LISTS",
        unit=Unit.COUNT,
        beyond="400; 500 for an output of a model",
        test=f"{_SHAPES}test_rows_that_nothing_is_sent_for_are_refused",
    ),
    Bound(
        what="the same, of a tensor that has many",
        constant="transformer_sdk.limits:MAX_TENSOR_LISTS",
        unit=Unit.COUNT,
        beyond="400; 500 for an output of a model",
        test=f"{_SHAPES}test_a_tensor_is_a_bounded_number_of_lists_however_much_it_carries",
    ),
    Bound(
        what="time that the event loop may be held before the log says by what",
        constant="transformer_sdk.limits:LOOP_HELD_S",
        unit=Unit.SECONDS,
        beyond="nothing; the server's log has the stack",
        test="tests/unit/transformer_sdk/test_loop_watch.py::test_what_holds_the_event_loop_is_logged_with_its_stack",
    ),
    Bound(
        what="names of settings in one line of the log",
        constant="transformer_sdk.limits:MAX_NAMED_SETTINGS",
        unit=Unit.COUNT,
        beyond="the others are counted",
        test="tests/unit/model_store/test_notices.py::test_many_unknown_names_are_counted_and_none_is_told_at_length",
    ),
    Bound(
        what="connections over HTTP",
        constant="transformer_sdk.limits:MAX_CONNECTIONS",
        unit=Unit.COUNT,
        setting="`--max-connections`",
        beyond="the one that has been idle for longest is closed; where none is, 503 with Retry-After, but for GET",
        test=f"{_CONNECTIONS}test_the_longest_idle_makes_room",
    ),
    Bound(
        what="connections beyond those",
        constant="transformer_sdk.limits:MAX_SURPLUS_CONNECTIONS",
        unit=Unit.COUNT,
        beyond="the oldest of them is reset",
        test=f"{_CONNECTIONS}test_of_those_beyond_the_limit_the_newest_are_kept",
    ),
    Bound(
        what="requests sent ahead on one connection",
        constant="transformer_sdk.limits:MAX_PIPELINED",
        unit=Unit.COUNT,
        beyond="those before are answered; the connection is closed",
        test=f"{_CONNECTIONS}test_so_many_requests_may_be_sent_ahead",
    ),
    Bound(
        what="time of a head, from its first byte to its last",
        constant="transformer_sdk.limits:HEAD_TIMEOUT",
        unit=Unit.SECONDS,
        beyond="408; the connection is closed",
        test=f"{_CONNECTIONS}test_a_head_that_does_not_come_to_its_end_is_given_up",
    ),
    Bound(
        what="time of a body, and of an answer until the client has read it, beside that by the rate",
        constant="transformer_sdk.limits:TRANSFER_TIMEOUT",
        unit=Unit.SECONDS,
        beyond="408 for a body; the connection is closed",
        test=f"{_CONNECTIONS}test_a_body_that_does_not_come_to_its_end_is_given_up",
    ),
    Bound(
        what="rate, per second, at which a body has to come and an answer has to be read, if it takes longer",
        constant="transformer_sdk.limits:MIN_RATE",
        unit=Unit.BYTES,
        beyond="408 for a body; the connection is closed",
        test=f"{_CONNECTIONS}test_a_client_that_does_not_read_its_answer_is_given_up",
    ),
    Bound(
        what="time that a connection without a request is kept",
        constant="transformer_sdk.limits:KEEP_ALIVE",
        unit=Unit.SECONDS,
        setting="`--timeout-keep-alive` of the SDK",
        beyond="it is closed",
        test=f"{_CONNECTIONS}test_an_idle_connection_is_kept_for_long",
    ),
    Bound(
        what="time that a refused client may go on sending",
        constant="transformer_sdk.limits:LINGER",
        unit=Unit.SECONDS,
        beyond="the connection is closed",
        test="tests/unit/transformer_sdk/test_connection.py::test_what_cannot_be_read_is_answered_in_the_form_of_errors",
    ),
    Bound(
        what="body that is thrown away, of a request that is refused before it is read",
        constant="transformer_sdk.limits:MAX_DISCARDED",
        unit=Unit.BYTES,
        beyond="the connection is closed",
        test=f"{_CONNECTIONS}test_not_more_than_so_much_is_thrown_away",
    ),
    Bound(
        what="share of the container's memory for requests that are read, queued or answered",
        constant="transformer_sdk.limits:BUFFERED_SHARE",
        unit=Unit.TIMES,
        setting="`--max-buffered-bytes`, in bytes",
        beyond="503 with Retry-After; UNAVAILABLE over gRPC",
        test=f"{_BUDGET}test_a_body_that_finds_no_room_is_refused",
    ),
    Bound(
        what="the same of a server that is put together from the SDK's parts",
        constant="transformer_sdk.limits:MAX_BUFFERED",
        unit=Unit.BYTES,
        setting="`budget` of `App`",
        beyond="503 with Retry-After",
        test=f"{_BUDGET}test_a_body_that_finds_no_room_is_refused",
    ),
    Bound(
        what="files that are left for workers, models and connections to other servers",
        constant="transformer_sdk.limits:FILE_RESERVE",
        unit=Unit.COUNT,
        beyond="there are fewer connections",
        test=f"{_FILES}test_connections_leave_files_for_others",
    ),
    Bound(
        what="files that a process may open: its soft limit is raised so far, below the hard one",
        constant="transformer_sdk.limits:MAX_FILES",
        unit=Unit.COUNT,
        setting="the container's hard limit",
        beyond="there are fewer connections",
        test=f"{_FILES}test_the_soft_limit_is_raised_as_far_as_the_hard_one_goes",
    ),
    Bound(
        what="lists and objects in a JSON body, where the server itself reads them: v2, a bare model, hooks of the SDK",
        constant="transformer_sdk.limits:MAX_JSON_CONTAINERS",
        unit=Unit.COUNT,
        beyond="400",
        test=f"{_JSON}test_too_many_lists_are_refused",
    ),
    Bound(
        what="lists and objects within one another, in such a body of more than 128 KiB",
        constant="transformer_sdk.limits:MAX_JSON_DEPTH",
        unit=Unit.COUNT,
        beyond="400",
        test=f"{_JSON}test_a_large_text_that_is_nested_too_deep_is_refused",
    ),
    Bound(
        what="a structured CloudEvent, without its data",
        constant="transformer_sdk.limits:MAX_EVENT_ATTRIBUTES",
        unit=Unit.BYTES,
        beyond="400",
        test="tests/unit/cloudevents/test_cloudevents.py::test_an_event_of_more_attributes_than_headers_hold_is_refused",
    ),
    Bound(
        what="what is read or written on the event loop at once; more is in a thread",
        constant="transformer_sdk.limits:ON_LOOP_BYTES",
        unit=Unit.BYTES,
        beyond="nothing",
        test="tests/unit/transformer_sdk/test_off_loop.py::test_what_is_large_runs_in_a_thread",
    ),
    Bound(
        what="fields and files of a form, and fields of a query",
        constant="transformer_sdk.limits:MAX_FORM_PARTS",
        unit=Unit.COUNT,
        beyond="400",
        test="tests/unit/handler/test_parts.py::test_a_form_of_more_parts_than_are_served_is_refused",
    ),
    Bound(
        what="fields of a request over gRPC, and of its tensors, without their contents",
        constant="transformer_sdk.limits:MAX_MESSAGE_FIELDS",
        unit=Unit.COUNT,
        beyond="INVALID_ARGUMENT",
        test=f"{_FIELDS}test_a_message_that_holds_more_than_is_served_is_refused",
    ),
    Bound(
        what="elements of BYTES in the typed contents of such a request",
        constant="transformer_sdk.limits:MAX_MESSAGE_ELEMENTS",
        unit=Unit.COUNT,
        beyond="INVALID_ARGUMENT",
        test=f"{_FIELDS}test_a_message_that_holds_more_than_is_served_is_refused",
    ),
    Bound(
        what="whole numbers and booleans in the typed contents of such a request",
        constant="transformer_sdk.limits:MAX_MESSAGE_NUMBERS",
        unit=Unit.COUNT,
        beyond="INVALID_ARGUMENT",
        test=f"{_FIELDS}test_a_message_that_holds_more_than_is_served_is_refused",
    ),
)
