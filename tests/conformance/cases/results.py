"""What a handler returns, sets and raises, and what its client gets of it."""

from __future__ import annotations

import json

from tests.conformance.case import ERROR_FORM, JSON, SAID_BY_HANDLER, Case, Refusal, predictions
from tests.support.runtimes import Answer


def _result(kind: str, feature: str = "") -> Case:
    feature = f"result: {feature or kind}"
    return Case(f"result-{kind}", feature, "probe", predictions("probe", x_do="result", x_argument=kind))


def _refused(kind: str, feature: str, words: str) -> Case:
    why = f"{ERROR_FORM}; TorchServe only says that it failed"
    request = predictions("probe", x_do="result", x_argument=kind)
    return Case(f"result-{kind}", f"result: {feature}", "probe", request, 503, Refusal(500, words), why)


def _miscounted(kind: str, feature: str, words: str) -> Case:
    why = f"{ERROR_FORM}; a 500 with the expected and the actual number or type"
    request = predictions("probe", x_do="whole", x_argument=kind)
    return Case(f"whole-{kind}", f"result: {feature}", "probe", request, 503, Refusal(500, words), why)


def _taken(kind: str, feature: str, body: bytes) -> Case:
    request = predictions("probe", x_do="whole", x_argument=kind)
    why = "ours accepts whatever works like a list"
    return Case(f"whole-{kind}", f"result: {feature}", "probe", request, 503, Answer(200, JSON, body), why)


def _raised(kind: str, feature: str, status: int, ours: Refusal, why: str) -> Case:
    request = predictions("probe", x_do="fail", x_argument=kind)
    return Case(f"raise-{kind}", f"error: {feature}", "probe", request, status, ours, why)


def _response(name: str, feature: str, setting: str, value: object, status: int = 200) -> Case:
    request = predictions("probe", x_do="respond", x_argument=json.dumps({setting: value}))
    return Case(f"respond-{name}", f"response: {feature}", "probe", request, status)


MEASURE = Case("measure", "metrics: `add_counter`, `add_time`, `add_size`, `add_percent`, `add_error`", "probe",
               predictions("probe", x_do="measure"))  # fmt: skip
CASES = (
    MEASURE,
    *map(_result, ("str", "bytes", "bytearray", "dict", "list", "int", "float", "none", "bool")),
    _result("nan", "NaN, as Python's JSON writes it"),
    _result("unicode", "JSON escapes what is not ASCII"),
    _result("empty", "an empty text"),
    Case("pieces", "result: parts sent with `send_intermediate_predict_response`; each leaves at once",
         "probe", predictions("probe", x_do="stream")),
    _refused("set", "a value that JSON cannot represent", "set"),
    _refused("object", "an object", "object"),
    _miscounted("few", "too few", "1 expected, got 0"),
    _miscounted("many", "too many", "1 expected, got 2"),
    _miscounted("dict", "not a list but a dict", "dict"),
    _miscounted("none", "not a list but None", "NoneType"),
    _taken("tuple", "not a list but a tuple", b"0"),
    _response("status", "`set_response_status`", "status", 201, 201),
    _response("client-error", "`set_response_status` with an error", "status", 422, 422),
    _response("no-content", "`set_response_status` with 204, which has no body", "status", 204, 204),
    _response("type", "`set_response_content_type`", "content-type", "text/csv"),
    _response("header", "`set_response_header`", "x-answer", "42"),
    Case("respond-all", "response: `set_all_response_status`", "probe", predictions("probe", x_do="all_status"), 202),
    _raised("ValueError", "an exception", 503, Refusal(500, "ValueError : cannot read this"),
            f"{ERROR_FORM}; {SAID_BY_HANDLER}"),
    _raised("PredictionException", "`PredictionException` with its code", 418, Refusal(418, "a custom message"),
            ERROR_FORM),
    _raised("PredictionException-default", "`PredictionException` without a code", 500,
            Refusal(500, "a custom message"), ERROR_FORM),
    _raised("MemoryError", "`MemoryError`", 507, Refusal(507, "Out of memory"), ERROR_FORM),
    _raised("CUDA", "CUDA out of memory", 507, Refusal(507, "Out of memory"), ERROR_FORM),
)  # fmt: skip
TENSORS = (
    _result("tensor", "a tensor, as `torch.save` writes it"),
    _taken("tensor", "not a list but a tensor of as many rows", b"0.0"),
)
