"""Service envelopes: what stands between the body of a request and the rows that a handler gets."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.conformance.case import ERROR_FORM, JSON, SAID_BY_HANDLER, Case, Refusal, predictions, v1, v2
from tests.support.runtimes import Answer

NUMBERS = {"name": "numbers", "shape": [2, 2], "datatype": "INT64", "data": [1, 2, 3, 4]}
TEXT = {"name": "text", "shape": [1], "datatype": "BYTES", "data": ["a text"]}
LARGE = {"name": "large", "datatype": "UINT64", "shape": [2], "data": [1, 2**64 - 1]}
HALVES = {"name": "halves", "shape": [3], "datatype": "FP64", "data": [0.5, 1.5, 2.5]}

PREDICTED = b'{\n  "predictions": [\n    {\n      "int": 1\n    }\n  ]\n}'
ONE = b'{"instances": [1]}'
NAN = b'{"instances": [NaN, -Infinity]}'
MIXED = b'{"instances": [1, "two", {"three": null}]}'
BASE64 = b'{"instances": [{"b64": "AAEC"}, {"b64": "/w=="}]}'


def _kserve(name: str, feature: str, body: bytes, verb: str = "predict", **headers: str) -> Case:
    return Case(f"kserve-{name}", f"envelope `kserve`: {feature}", "probe", v1("probe", body, verb, **headers))


def _infer(name: str, feature: str, *inputs: object) -> Case:
    return Case(
        f"kservev2-{name}", f"envelope `kservev2`: {feature}", "probe", v2("probe", _inputs(*inputs), x_do="data")
    )


def _inputs(*inputs: object) -> bytes:
    return json.dumps({"id": "an-id", "inputs": inputs}).encode()


def _inferred(output: object) -> bytes:
    """As ours write it."""
    document = {"model_name": "probe", "model_version": "1.0", "id": "an-id", "outputs": [output]}
    return json.dumps(document, separators=(",", ":")).encode()


def _indented(output: object) -> bytes:
    """As ours write it over `/predictions`."""
    document = {"id": "an-id", "model_name": "probe", "model_version": "1.0", "outputs": [output]}
    return json.dumps(document, indent=2).encode()


NAN_TENSOR = {**HALVES, "data": [float("nan"), 1.5, float("inf")]}
TEXTS_ONLY = "BYTES is text in the protocol, also over gRPC: ours is the object's JSON"
LABELLED = {"name": "numbers", "datatype": "BYTES", "shape": [1]}
BAD_JSON = Refusal(400, "is not valid JSON")
ROUNDED = "TorchServe rounds it; ours keeps a datatype that holds every digit"
NO_NAN = "JSON has neither, and KServe refuses them too"
ITS_FAULT = f"{ERROR_FORM}; the request is at fault"
WITHOUT_ENVELOPE = "without `service_envelope`, ours uses `kserve`, so that the v1 protocol works unchanged"

NONE = (
    Case("no-envelope-instances", "no envelope: `{\"instances\": …}` to `/predictions/<model>`", "probe",
         predictions("probe", ONE, JSON), ours=Answer(200, JSON, PREDICTED), why=WITHOUT_ENVELOPE),
    Case("no-envelope-inputs", "no envelope: `{\"inputs\": …}` to `/predictions/<model>`", "probe",
         predictions("probe", b'{"inputs": [1], "parameters": {"k": 1}}', JSON)),
    Case("no-envelope-v1", "no envelope: `/v1/models/<model>:predict`", "probe", v1("probe", ONE),
         ours=Answer(200, JSON, b'{"predictions":[{"int":1}]}'), why=WITHOUT_ENVELOPE),
)  # fmt: skip
KSERVE = (
    Case("manifest-envelope", "`envelope` of a manifest has no effect", "function",
         v1("function", b'{"instances": ["a text"]}')),
    _kserve("instances", "the instances are the rows", MIXED),
    _kserve("explain", "`:explain` returns explanations", MIXED, "explain"),
    _kserve("more", "more fields than instances in the body", b'{"signature_name": "x", "instances": [null]}'),
    _kserve("header", "`get_request_header`", ONE, x_do="header", x_argument="x-tenant", x_tenant="me"),
    Case("kserve-predictions", "envelope `kserve`: over `/predictions/<model>`", "probe",
         predictions("probe", MIXED, JSON)),
    Case("kserve-untyped", "envelope `kserve`: no content type, as `curl -T` sends", "probe",
         predictions("probe", MIXED)),
    Case("kserve-predictions-nan", "envelope `kserve`: over `/predictions/<model>`, with NaN and infinity", "probe",
         predictions("probe", NAN, JSON)),
    Case("kserve-nan", "envelope `kserve`: NaN and infinity", "probe", v1("probe", NAN), 200, BAD_JSON, NO_NAN),
    Case("kserve-bom", "envelope `kserve`: JSON after a byte order mark", "probe",
         v1("probe", b"\xef\xbb\xbf" + ONE), 503, BAD_JSON, ITS_FAULT),
    Case("kserve-utf-16", "envelope `kserve`: JSON in UTF-16", "probe", v1("probe", ONE.decode().encode("utf-16")), 503,
         BAD_JSON, ITS_FAULT),
    Case("kserve-raises", "envelope `kserve`: the handler raises", "probe",
         v1("probe", ONE, x_do="fail", x_argument="ValueError"), 503,
         Refusal(500, "ValueError : cannot read this"), f"{ERROR_FORM}; {SAID_BY_HANDLER}"),
    Case("kserve-few", "envelope `kserve`: one prediction too few", "probe",
         v1("probe", MIXED, x_do="whole", x_argument="few"), 200, Refusal(500, "3 expected, got 2"),
         "TorchServe does not count; ours requires one prediction for each instance"),
    Case("kserve-pieces", "envelope `kserve`: parts sent with `send_intermediate_predict_response`", "probe",
         v1("probe", ONE, x_do="stream"), 200, Refusal(501, "use /predictions/<model>"),
         "TorchServe sends invalid JSON; ours explains that the protocol does not support streaming"),
)  # fmt: skip


def _raw_infer(name: str, feature: str, *inputs: object, **headers: str) -> Case:
    request = predictions("probe", _inputs(*inputs), JSON, **headers)
    return Case(
        f"kservev2-raw-{name}", f"envelope `kservev2`: over `/predictions/<model>`, {feature}", "probe", request
    )


KSERVEV2 = (
    _infer("numbers", "a tensor in its shape", NUMBERS),
    _infer("floats", "floats", HALVES),
    replace(_infer("large", "the largest UINT64", LARGE), ours=Answer(200, JSON, _inferred(LARGE)), why=ROUNDED),
    _infer("bytes", "a text", TEXT),
    _infer("several", "several inputs", NUMBERS, HALVES),
    Case(
        "kservev2-few",
        "envelope `kservev2`: fewer outputs than inputs",
        "probe",
        v2("probe", _inputs(NUMBERS, HALVES), x_do="one_output"),
    ),
    Case(
        "kservev2-object",
        "envelope `kservev2`: a result that is an object",
        "probe",
        v2("probe", _inputs(NUMBERS), x_do="result", x_argument="dict"),
        ours=Answer(
            200, JSON, _inferred({**LABELLED, "data": ['{"label":"seven","score":0.5,"nested":{"list":[1,2]}}']})
        ),
        why=TEXTS_ONLY,
    ),
    Case(
        "kservev2-mixed",
        "envelope `kservev2`: results of several kinds",
        "probe",
        v2("probe", _inputs(NUMBERS), x_do="result", x_argument="list"),
        ours=Answer(200, JSON, _inferred({**LABELLED, "shape": [5], "data": ["1", "2.5", "three", "null", "true"]})),
        why=TEXTS_ONLY,
    ),
    Case(
        "kservev2-nan",
        "envelope `kservev2`: NaN and infinity",
        "probe",
        v2("probe", _inputs(NAN_TENSOR)),
        200,
        Refusal(400, "is not valid JSON"),
        "JSON has neither, and KServe refuses them too; binary tensors have them",
    ),
    _raw_infer("numbers", "a tensor", NUMBERS, x_do="data"),
    replace(
        _raw_infer("large", "the largest UINT64", LARGE, x_do="data"),
        ours=Answer(
            200, JSON, _indented({"name": "large", "datatype": "UINT64", "data": [1, 2**64 - 1], "shape": [2]})
        ),
        why=ROUNDED,
    ),
    _raw_infer("nan", "NaN and infinity", NAN_TENSOR, x_do="data"),
    _raw_infer("object", "a result that is an object", NUMBERS, x_do="result", x_argument="dict"),
    _raw_infer("mixed", "results of several kinds", NUMBERS, x_do="result", x_argument="list"),
)
JSON_INSTANCES = (
    Case("json-instances", "envelope `json`: the instances are the rows", "probe", predictions("probe", MIXED, JSON)),
    Case("json-b64", "envelope `json`: `b64` is decoded", "probe", predictions("probe", BASE64, JSON)),
    Case("json-b64-broken", "envelope `json`: `b64` that is not base64", "probe",
         predictions("probe", b'{"instances": [{"b64": "abc"}]}', JSON), 503, Refusal(400, "is not base64"),
         ITS_FAULT),
)  # fmt: skip
BODY = (
    Case("body-json", "envelope `body`: the row is the body", "probe", predictions("probe", b'{"a": 1}', JSON)),
    Case("body-bytes", "envelope `body`: bytes", "probe", predictions("probe", b"\x00\x01\x02")),
)
