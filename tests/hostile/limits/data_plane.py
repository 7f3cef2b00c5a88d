"""Bounds of the server that both runtimes and the SDK for transformers share."""

from __future__ import annotations

from tests.hostile.limits.bound import Bound, Unit

_SHAPES = "tests/unit/protocol_v2/test_shapes.py::"

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
)
