"""Rows about responses of a running service, which a server of this process gives."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from pathlib import Path

from tests.contract.troubles.rows import Elsewhere, Provoked, Tried
from tests.unit.endpoints.asking import RecordingModel, Server

Try = Callable[[Path], str]
PREDICT = "/v1/models/m:predict"
ONE = b'{"instances": [1]}'
PICTURE = b"\x89PNG\r\n\x1a\n"


def asked(path: str, body: bytes, *, expected: bool = False) -> Try:
    """Post a body to the model `m`, which is served or only expected; the status and the text of an error."""

    def run(_: Path) -> str:
        served = (RecordingModel(name="other"),) if expected else ()
        answer = asyncio.run(Server(*served, expected=("m",) if expected else ()).ask("POST", path, body))
        return f"{answer.status} {answer.document['error']}" if answer.status >= 400 else ""

    return run


def as_base64(content: bytes) -> bytes:
    return json.dumps({"instances": [{"b64": base64.b64encode(content).decode()}]}).encode()


SEQUENCES = "tests/unit/batching/test_sequences.py"
QUEUES = "tests/unit/batching/test_queue_callers.py"
MISBEHAVING = "tests/integration/mar_runtime/test_misbehaving.py"
CONNECTIONS = "tests/unit/data_plane/test_connections.py"
TENSORS = "tests/unit/mar_runtime/test_tensor_model.py"
HANDLERS = "tests/unit/torchserve_compat/test_calls.py"
STREAMS = "tests/conformance/test_streaming.py"
PREDICTOR = "tests/integration/kserve_sdk/test_client.py"
LATER = "503 with Retry-After"
HERE: tuple[Tried, ...] = (
    Provoked(("400", "The request body is not valid JSON"), "is not valid JSON: trailing comma",
             asked(PREDICT, b'{"instances": [1,]}'), asked(PREDICT, ONE)),
    Provoked(("400", "… is not valid JSON"), "A handler gets a file as it is from /predictions/<model>",
             asked(PREDICT, PICTURE), asked(PREDICT, as_base64(PICTURE))),
    Provoked(("400", 'The request has no "instances"'), 'The request has no "instances"; send {"instances": [...]}.',
             asked(PREDICT, b"{}"), asked(PREDICT, ONE)),
    Provoked(("404", "Model with name x"), "Model with name x does not exist", asked("/v1/models/x:predict", ONE),
             asked(PREDICT, ONE)),
    Elsewhere(("404, empty, from Envoy or nginx", "–"), (
        "tests/e2e/cluster/test_bert_from_a_claim.py::test_the_other_host_names_lead_there_too",
        "tests/integration/local/ingress/test_passing_on.py::"
        "test_an_unknown_host_is_answered_with_the_hosts_that_there_are")),
    Elsewhere(("408", "The request's head"), (
        f"{CONNECTIONS}::test_a_head_that_does_not_come_to_its_end_is_given_up",
        f"{CONNECTIONS}::test_a_body_that_does_not_come_to_its_end_is_given_up",
        f"{CONNECTIONS}::test_one_that_comes_at_the_least_rate_is_waited_for")),
    Elsewhere(("413", "… with the limit"), (
        "tests/unit/data_plane/test_app.py::test_a_body_over_the_limit_is_read_to_its_end_and_refused",
        "tests/unit/mar_runtime/test_directory.py::"
        "test_the_largest_body_is_the_flags_else_the_configurations_else_torchserves")),
    Elsewhere(("422", "The model takes the inputs"), (
        f"{TENSORS}::test_an_input_that_the_model_does_not_have_is_refused",
        f"{TENSORS}::test_instances_that_are_no_rows_are_refused", f"{TENSORS}::test_an_instance_may_name_the_input")),
    Elsewhere(("429 with Retry-After", "… requests wait for model x"), (
        f"{QUEUES}::test_a_full_queue_refuses_more", f"{SEQUENCES}::test_only_so_many_requests_of_a_sequence_wait")),
    Elsewhere(("507", "Out of memory"), (f"{HANDLERS}::test_what_a_handler_raises_is_told",)),
    Elsewhere(("500", "ValueError : …"), (f"{HANDLERS}::test_what_a_handler_raises_is_told",)),
    Elsewhere(("500", "The handler must return one prediction"), (
        f"{HANDLERS}::test_a_result_that_is_no_answer_is_told",)),
    Elsewhere(("410", "The worker … that had sequence"), (
        f"{SEQUENCES}::test_what_a_worker_had_is_lost_with_it_and_told",
        f"{SEQUENCES}::test_who_says_that_a_sequence_begins_may_have_a_lost_ones_id")),
    Elsewhere(("503", "Model … has … sequences already"), (
        f"{SEQUENCES}::test_one_sequence_too_many_is_refused_until_another_is_idle_for_long_enough",)),
    Elsewhere(("502", "The worker … died while"), (
        f"{MISBEHAVING}::test_a_handler_that_ends_its_process_costs_the_request_that_it_held",)),
    Elsewhere(("501", "The handler streams its response"), (
        f"{STREAMS}::test_the_v1_protocol_is_refused",
        f"{STREAMS}::test_a_piece_reaches_the_client_before_the_next_one_is_made")),
    Elsewhere(("", "a streamed response breaks off"), (
        f"{STREAMS}::test_an_answer_that_fails_after_a_piece_breaks_off",
        f"{STREAMS}::test_a_worker_that_dies_breaks_its_answer_off_and_is_replaced")),
    Provoked((LATER, "the model is not ready"), "Model with name m is not ready: it is loading.",
             asked("/v1/models/m:predict", ONE, expected=True), asked(PREDICT, ONE)),
    Elsewhere((LATER, "Requests that are being read"), (
        "tests/unit/data_plane/test_budget.py::test_a_body_that_finds_no_room_is_refused",
        "tests/unit/data_plane/test_budget.py::test_a_body_counts_until_it_is_answered")),
    Elsewhere((LATER, "… connections are open"), (
        f"{CONNECTIONS}::test_where_none_is_idle_a_request_is_refused_and_a_probe_answered",
        f"{CONNECTIONS}::test_the_longest_idle_makes_room")),
    Elsewhere(("503, `component` is `predictor`", "… cannot be reached"), (
        f"{PREDICTOR}::test_nobody_at_the_address_is_a_503_with_what_to_look_at",
        "tests/e2e/cluster/test_transformers.py::test_a_wrong_predictor_host_is_told_with_the_address_that_was_tried")),
    Elsewhere(("504", ""), (f"{MISBEHAVING}::test_a_handler_that_hangs_is_ended_with_what_it_started",)),
)  # fmt: skip
