"""The table of docs/conformance.md, made of the cases themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.conformance.batches import BATCHES
from tests.conformance.case import Case, Refusal
from tests.conformance.cases import envelopes, loading, requests, results, stock
from tests.conformance.endpoints import METHODS, TORCHSERVES, V1, V2, Endpoint
from tests.conformance.test_bad_archives import BAD
from tests.conformance.test_bad_handlers import DEATHS
from tests.conformance.torchserve_grpc import CASES as GRPC_CASES
from tests.conformance.torchserve_grpc import GrpcCase
from tests.support.runtimes import ROOT

PAGE = ROOT / "docs/conformance.md"
_CASES = "test_handlers"
_ENDPOINTS = "test_endpoints"
_HEAD = """\
# Conformance

The same requests go to TorchServe 0.12 as its users start it, to TorchServe behind our adapter (`kserve-torchserve`),
and to our own server of the same archives (`isvc-mar`). *The same* means: status, content type and body are equal byte
for byte, but for the last digits of fractions, which processors round differently. TorchServe's responses are recorded
in `tests/conformance/recorded`; `make recordings` records them again. Three rules hold everywhere:

- Where a handler names no content type, TorchServe sends none; ours say what the result is: JSON, text or bytes.
- Answers of the v1 and v2 protocols are the same JSON, but not indented, and say `application/json`.
- Every error of ours is `{"error": …}` with who said it and the request's id.

Each row names its test: `make test ARGS="tests/conformance -k NAME"`. This file is written by
`python -m tests.conformance`; a test watches that it is up to date.
"""
_SECTIONS = (
    ("How archives are loaded", (*loading.CASES, *loading.KSERVE)),
    ("What of a request a handler sees", requests.CASES),
    ("What a client gets of a handler's results, settings and errors", results.CASES),
    (
        "Service envelopes",
        (*envelopes.NONE, *envelopes.KSERVE, *envelopes.KSERVEV2, *envelopes.JSON_INSTANCES, *envelopes.BODY),
    ),
    ("TorchServe's stock handlers", stock.CASES),
)
# What takes more than one request is tested where such tests are.
_MORE = (
    ("`POST /v2/repository/models/<model>/load` and `…/unload`, `isvc-mar`",
     "tests/integration/mar_runtime/test_serving.py::test_a_model_is_loaded_and_unloaded_while_others_are_served"),
    ("`POST /v2/repository/models/<model>/load` and `…/unload`, `kserve-torchserve`",
     "tests/integration/torchserve/test_registered.py::test_the_repository_loads_and_unloads_what_the_store_holds"),
    ("`RepositoryModelLoad`, `RepositoryModelUnload` of gRPC",
     "tests/unit/grpc/test_server.py::test_models_are_loaded_and_unloaded_by_kserves_and_by_tritons_clients"),
    ("`ModelStreamInfer` of gRPC, as Triton has it",
     "tests/conformance/test_streaming.py::test_by_grpc_each_piece_is_a_response"),
    ("`ModelStreamInfer` of gRPC: errors as messages, or as a status",
     "tests/unit/grpc/test_streams.py"
     "::test_what_goes_wrong_is_a_message_with_the_requests_id_and_the_stream_goes_on"),
    ("the binary tensor extension",
     "tests/unit/protocol_v2/test_round_trips.py::test_a_request_survives_the_binary_form"),
    ("BF16: numbers in JSON, two bytes in binary and raw contents",
     "tests/unit/protocol_v2/test_rest.py::test_bf16_is_numbers_in_json_and_two_bytes_in_binary_form"),
)  # fmt: skip
_IN_PIECES = "tests/conformance/test_streaming.py::test_"
_STREAMS = (
    ("`send_intermediate_predict_response`", "sent at once, in chunks", "the same",
     f"{_IN_PIECES}a_piece_reaches_the_client_before_the_next_one_is_made"),
    ("a handler that fails after a piece", "the connection is reset", "the chunks have no end",
     f"{_IN_PIECES}an_answer_that_fails_after_a_piece_breaks_off"),
    ("a worker that dies after a piece", "the connection is reset", "the chunks have no end",
     f"{_IN_PIECES}a_worker_that_dies_breaks_its_answer_off_and_is_replaced"),
    ("`continuousBatching`: requests that come while others run", "join at the next step", "the same",
     f"{_IN_PIECES}a_request_joins_those_that_run_and_leaves_before_they_end"),
    ("`continuousBatching`: what a handler gets", "the request once, its headers at each step", "the same",
     f"{_IN_PIECES}a_handler_gets_the_request_once_and_its_headers_at_each_step"),
    ("`continuousBatching`: a client that hangs up", "leaves the batch", "the same",
     f"{_IN_PIECES}a_client_that_hangs_up_leaves_the_batch_and_the_handler_is_told"),
    ("`continuousBatching`: more requests than `batchSize`", "wait for others to leave", "the same",
     f"{_IN_PIECES}more_requests_than_the_batch_has_room_for_wait_for_others_to_leave"),
    ("`continuousBatching`: a handler that fails", "the whole batch breaks off", "the same",
     f"{_IN_PIECES}a_handler_that_fails_breaks_off_the_answers_of_its_batch"),
    ("`continuousBatching`: an answer of one piece", "nothing is sent", "200",
     f"{_IN_PIECES}an_answer_of_one_piece_is_answered"),
)  # fmt: skip
# What stands around a handler; tested with the rest of each runtime.
_AROUND = (
    ("`load_models` names an archive that is not there, beside others that are",
     "the others are served, 404 for its model",
     "the others are served; 503 for its model with the reason, which the log and `/v2/repository/index` have as well",
     "tests/conformance/test_load_models.py::test_a_missing_archive_is_named_and_the_others_are_served"),
    ("`load_models` with an archive that cannot be read, beside others", "the others are served",
     "exit code 3: a copy that broke is to be made again", "tests/unit/torchserve_adapter/test_models.py"
     "::test_a_model_that_cannot_be_loaded_is_named"),
    ("`model_snapshot` names an archive that is not there, beside others that are", "the server ends, exit code 0",
     "exit code 3", "tests/unit/torchserve_adapter/test_models.py::test_a_snapshot_is_served_whole_or_not_at_all"),
    ("`GET /api-description`, `OPTIONS`", "OpenAPI, of TorchServe's paths", "OpenAPI, of the paths of all protocols",
     "tests/unit/endpoints/test_description.py::test_the_server_describes_every_path_of_every_protocol"),
    ("`OPTIONS /predictions/<model>`, and of the other ways to ask a model", "OpenAPI, of the model",
     "the same, of ours",
     "tests/unit/endpoints/test_description.py::test_a_model_is_described_by_its_own_paths"),
    ("requests of one sequence by `StreamPredictions2`", "in order", "the same",
     "tests/unit/grpc/test_torchserve_api.py"
     "::test_requests_of_a_sequence_are_answered_in_order_and_an_error_ends_none"),
    ("`StreamPredictions` of a handler that answers in pieces", "a message for each", "the same",
     "tests/unit/grpc/test_torchserve_api.py::test_an_answer_is_streamed_as_the_model_makes_it"),
    ("`/ping` with any method", "200", "the same",
     "tests/unit/endpoints/test_torchserve.py::test_ping_is_answered_whatever_the_method"),
    ("`decode_input_request=false`: a body of JSON", "bytes", "the same",
     "tests/conformance/test_decoding.py::test_json_reaches_the_handler_as_bytes"),
    ("`cors_allowed_origin`, `cors_allowed_methods`, `cors_allowed_headers`",
     "in every answer, also to `OPTIONS`", "the same",
     "tests/unit/endpoints/test_cors.py::test_every_answer_says_who_may_read_it"),
    *_STREAMS,
    ("packages that workers have imported already, pinned by `requirementsFile`, `isvc-mar`",
     "the archive's", "the same",
     "tests/integration/mar_runtime/test_surroundings.py"
     "::test_what_an_archive_brings_is_found_before_what_workers_have_imported"),
    ("`multiprocessing.set_start_method` in a handler, `isvc-mar`", "its choice", "the same",
     "tests/integration/mar_runtime/test_surroundings.py::test_a_handler_chooses_how_its_processes_are_started"),
    ("`OMP_NUM_THREADS`, and the metrics of `metrics_config`, `isvc-mar`", "the user's", "the same",
     "tests/integration/mar_runtime/test_settings.py::test_a_handler_has_the_users_threads_and_metrics"),
    ("`deviceType`, `deviceIds`, `isvc-mar`", "the GPUs that are named", "the same",
     "tests/unit/mar_runtime/test_devices.py::test_an_archive_has_the_gpus_that_it_asks_for"),
    ("models without `deviceIds` on several GPUs, `isvc-mar`", "one counter for all workers", "the same",
     "tests/unit/mar_runtime/test_models.py::test_models_share_the_gpus_unless_their_yaml_names_some"),
    ("Python processes that a handler starts, `isvc-mar`", "find its archive's files and packages", "the same",
     "tests/integration/mar_runtime/test_surroundings.py"
     "::test_python_processes_of_a_handler_find_what_its_archive_brings"),
    ("`blacklist_env_vars`, `isvc-mar`", "neither workers nor pip have them", "the same",
     "tests/integration/mar_runtime/test_surroundings.py"
     "::test_a_handler_does_not_get_what_the_configuration_withholds"),
    ("a version in `model_snapshot` that is not the archive's, `isvc-mar`", "the archive's", "the same",
     "tests/unit/torchserve_compat/store/test_versions.py"
     "::test_a_snapshots_version_is_the_archives_whatever_the_snapshot_calls_it"),
    ("`parallelType` with `torchrun`, `isvc-mar`", "several processes", "exit code 3",
     "tests/integration/mar_runtime/test_settings.py"
     "::test_an_archive_that_asks_for_several_processes_ends_the_server"),
    ("`useJobTicket`: requests that come while no worker is idle", "503", "200, they wait",
     "tests/integration/torchserve/test_configurations.py"
     "::test_requests_wait_for_a_worker_whatever_an_archive_says_of_job_tickets"),
    ("requests that come while a worker is restarted, `kserve-torchserve`", "200, they wait", "the same",
     "tests/integration/torchserve/test_first_story.py"
     "::test_requests_wait_for_the_worker_that_comes_in_the_place_of_a_killed_one"),
    ("requests that come while a worker is restarted, `isvc-mar`", "200, they wait", "the same",
     "tests/integration/mar_runtime/test_misbehaving.py"
     "::test_while_there_is_no_worker_the_server_is_not_ready_and_requests_wait"),
    ("five deaths in a row, without an answer between, `kserve-torchserve`", "tries for five minutes", "exit code 4",
     "tests/integration/torchserve/test_ends.py::test_a_loop_of_crashes_ends_the_pod_with_the_last_of_them"),
    ("five deaths in a row, without an answer between, `isvc-mar`", "tries for five minutes", "exit code 4",
     "tests/integration/mar_runtime/test_ends.py::test_a_loop_of_crashes_ends_the_server_with_the_last_of_them"),
    ("`sequenceBatching`: requests with `ts_request_sequence_id`, several sequences at once",
     "in order, in one worker, at most one of each in a batch", "the same",
     "tests/conformance/test_sequences.py::test_requests_of_a_sequence_are_added_up_in_order"),
    ("`sequenceBatching`: a request without an id", "a sequence of its own, whose id the handler sees", "the same",
     "tests/conformance/test_sequences.py::test_a_request_without_an_id_begins_a_sequence_of_its_own"),
    ("`maxNumSequence`, `maxSequenceJobQueueSize`: more than that", "503", "503, with what is full",
     "tests/conformance/test_sequences.py::test_more_than_torchserve_takes_is_refused_with_its_status"),
    ("`sequenceMaxIdleMSec`: a sequence that has been idle so long", "its place is free", "the same",
     "tests/conformance/test_sequences.py::test_a_place_is_free_again_when_a_sequence_has_been_idle"),
    ("`sequenceBatching`: a worker dies, `isvc-mar`", "500 for the request that it held, others hang",
     "502 for the request that it held, 410 for its sequences",
     "tests/conformance/test_sequences.py::test_when_a_worker_dies_its_sequences_are_told_and_the_others_go_on"),
    ("`sequenceBatching`: a worker dies, `kserve-torchserve`", "500 for the request that it held, others hang",
     "502 for the request that it held, then exit code 4",
     "tests/conformance/test_sequences.py"
     "::test_torchserve_behind_the_adapter_ends_with_the_worker_whose_sequences_it_would_not_answer"),
)  # fmt: skip
ELSEWHERE = tuple(row[-1] for row in (*_MORE, *_AROUND))
_OTHERS = (
    ("`get_request_id` is the answer's `x-request-id`", "the same", "test_the_handlers_request_id"),
    ("`set_response_header` reaches the client", "the same", "test_a_response_header_of_the_handler"),
    ("`context.metrics` on `/metrics`: names, values, labels", "the same", "test_metrics"),
    ("`PredictionTime` on `/metrics`, with its labels", "the same", "test_metrics"),
)


def render() -> str:
    """The whole page."""
    sections = [_section(title, _HANDLER_COLUMNS, map(_handler_row, cases)) for title, cases in _SECTIONS]
    others = [(feature, "200", ours, test) for feature, ours, test in _OTHERS]
    batches = [
        (batch.feature, "503 for all" if batch.why else "200", batch.why or "the same", "test_batches")
        for batch in BATCHES
    ]
    return "\n".join(
        [
            _HEAD,
            *sections,
            _section("Ids, headers, metrics, batches", _HANDLER_COLUMNS, [*others, *batches]),
            _section(
                "Handlers that misbehave", ("what the handler does", "what its clients see", "test"), _bad_handlers()
            ),
            _section("Around the handlers", _HANDLER_COLUMNS, _AROUND),
            _section("Archives that cannot be served", ("archive", "exit code", "test"), _bad_archives()),
            _section("The v1 protocol", _ENDPOINT_COLUMNS, map(_endpoint_row, V1)),
            _section("The v2 protocol (Open Inference Protocol), HTTP", _ENDPOINT_COLUMNS, map(_endpoint_row, V2)),
            _section("The v2 protocol, gRPC", ("method", "test"), ((f"`{one.name}`", _ENDPOINTS) for one in METHODS)),
            _section("More of the v2 protocol", _ENDPOINT_COLUMNS, _MORE),
            _section("TorchServe's API, besides predictions", _ENDPOINT_COLUMNS, map(_endpoint_row, TORCHSERVES)),
            _section("TorchServe's gRPC API, on the port of the others", _HANDLER_COLUMNS, map(_grpc_row, GRPC_CASES)),
        ]
    )


_HANDLER_COLUMNS = ("feature", "TorchServe", "ours", "test")
_ENDPOINT_COLUMNS = ("endpoint", "test")


def _section(title: str, columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    columns = tuple(columns)
    lines = [_line(columns), _line("---" for _ in columns), *map(_line, rows)]
    return "\n".join([f"## {title}", "", *lines, ""])


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _handler_row(case: Case) -> tuple[str, ...]:
    return (case.feature, str(case.status), _ours(case), f"{_CASES} and {case.name}")


def _ours(case: Case) -> str:
    if case.ours is None:
        return "the same"
    said = f"“{case.ours.words}”: " if isinstance(case.ours, Refusal) else ""
    return f"{case.ours.status}, {said}{case.why}"


def _bad_handlers() -> Iterator[tuple[str, ...]]:
    what = {"exit": "calls `sys.exit`", "end": "calls `os._exit`", "kill": "kills itself"}
    lost = "502 for the request that it held; those that follow wait for another process"
    for death in DEATHS:
        yield (what[death], lost, f"test_bad_handlers and {death}")
    yield (
        "hangs",
        "504 after `responseTimeout`; those that follow wait for another process",
        "test_bad_handlers and hangs",
    )
    yield ("leaks", "nothing: another process at `--worker-max-memory` (`isvc-mar`)", "test_bad_handlers and leaks")


def _bad_archives() -> Iterator[tuple[str, ...]]:
    return ((bad.feature, str(bad.exit_code), f"test_bad_archives and {bad.name}") for bad in BAD)


def _grpc_row(case: GrpcCase) -> tuple[str, ...]:
    theirs = case.answer[0] if case.answer[0].isupper() else "answered"
    if case.ours is None:
        return case.feature, theirs, "the same", _ENDPOINTS
    ours = case.ours[0] if case.ours[0].isupper() else "answered"
    return case.feature, theirs, f"{ours}, {case.why}", _ENDPOINTS


def _endpoint_row(endpoint: Endpoint) -> tuple[str, ...]:
    return (f"`{endpoint.template}`", _ENDPOINTS)
