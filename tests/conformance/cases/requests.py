"""What of a request a handler gets to see."""

from __future__ import annotations

import json

from tests.conformance.case import ERROR_FORM, JSON, NAMED, Case, Refusal, multipart, predictions
from tests.support.runtimes import Answer, Request

FORM_URLENCODED = "application/x-www-form-urlencoded"
FORM, FORM_TYPE = multipart(
    {
        "data": ("image/jpeg", b"\xff\xd8 a picture \xff\xd9"),
        "config": (JSON, b'{"k": 3}'),
        "text": ("text/plain", "Grüße".encode()),
        "k": (None, b"5"),
    }
)
TWICE, _ = multipart({"data": (None, b"first"), "other": (None, b"")})
NO_CASE = "header names are case-insensitive in HTTP, and proxies change their case"


def _body(name: str, what: str, content_type: str | None, body: bytes) -> Case:
    return Case(name, f"request body: {what}", "probe", predictions("probe", body, content_type))


CASES = (
    _body("json", "`application/json` is decoded", JSON, b'{"a": [1, 2.5, null]}'),
    _body("json-charset", "`application/json; charset=…` is decoded", f"{JSON}; charset=utf-8", b'{"a": 1}'),
    _body("json-list", "a JSON list", JSON, b"[1, 2]"),
    _body("json-broken", "what is not JSON stays bytes", JSON, b'{"a":'),
    _body("json-empty", "an empty body", JSON, b""),
    _body("json-nan", "JSON with NaN and infinity, as Python writes it", JSON, b'{"a": [NaN, -Infinity, 1e400]}'),
    _body("json-surrogate", "JSON with half a character", JSON, b'{"a": "\\ud800"}'),
    _body("json-bom", "JSON after a byte order mark stays bytes", JSON, b'\xef\xbb\xbf{"a": 1}'),
    _body("json-utf-16", "JSON in UTF-16 stays bytes", JSON, '{"a": "ü"}'.encode("utf-16")),
    _body("text", "`text/*` is decoded", "text/plain; charset=utf-8", "Grüße".encode()),
    _body("text-utf-16", "text in UTF-16 stays bytes", "text/plain; charset=utf-16", "Grüße".encode("utf-16")),
    _body("text-broken", "text that is not UTF-8 stays bytes", "text/plain", b"\xff\xfe"),
    _body("octet-stream", "`application/octet-stream` stays bytes", "application/octet-stream", b'{"a": 1}'),
    _body("image", "an image stays bytes", "image/jpeg", b"\xff\xd8\xff"),
    _body("untyped", "no content type: bytes", None, b'{"a": 1}'),
    _body("urlencoded", "a form's fields", FORM_URLENCODED, b"a=1&b=two+words&b=3&c=%C3%BC"),
    _body("urlencoded-bytes", "a form's field of bytes", FORM_URLENCODED, b"data=%89PNG%0D%0A%1A%FF"),
    _body("urlencoded-latin", "a form in another charset", f"{FORM_URLENCODED}; charset=iso-8859-1", b"data=%FC"),
    _body("urlencoded-raw", "a form with bytes that are not escaped", FORM_URLENCODED, b"data=\xff\xfe"),
    Case("urlencoded-broken", "request body: a form with broken escapes", "probe",
         predictions("probe", b"data=%ZZ&b=%", FORM_URLENCODED), 500,
         Refusal(400, "The form has a % at byte 5 that begins no escape."), f"{ERROR_FORM}; the fault is the client's"),
    Case("urlencoded-jpeg", "request body: a picture that is called a form", "probe",
         predictions("probe", b"\xff\xd8\xff\xe0\x00%\x10JFIF", FORM_URLENCODED), 200,
         Refusal(400, "If the body is not a form, send its own Content-Type"), "TorchServe's handler gets none of it"),
    Case("urlencoded-unnamed", "request body: a form's field without a name", "probe",
         predictions("probe", b"a=1&=2", FORM_URLENCODED), 500,
         Refusal(400, "A field of the form has no name."), f"{ERROR_FORM}; the fault is the client's"),
    _body("urlencoded-blank", "a form's field without a value", FORM_URLENCODED, b"a=1&b="),
    _body("multipart", "multipart: every part by its name", FORM_TYPE, FORM),
    _body("multipart-fields", "multipart without files", FORM_TYPE, TWICE),
    _body("multipart-empty", "multipart without parts", FORM_TYPE, b"--a-boundary--\r\n"),
    Case("query", "query parameters reach no handler", "probe", Request("POST", "/predictions/probe?k=3", b"x")),
    Case("get", "GET of a prediction: an empty body", "probe", Request("GET", "/predictions/probe")),
    Case("put", "PUT, as `curl -T` sends", "probe", Request("PUT", "/predictions/probe", b"\x00\x01")),
    Case("slash", "a path after the version", "probe",
         Request("POST", "/predictions/probe/1.0/more/path", b"x", (("x-do", "header"), ("x-argument", "url_path")))),
    Case("header", "`get_request_header`", "probe",
         predictions("probe", x_do="header", x_argument="x-tenant", x_tenant="me")),
    Case("header-case", "`get_request_header` with capitals, as clients send them", "probe",
         Request("POST", "/predictions/probe",
                 headers=(("x-do", "header"), ("x-argument", "X-Tenant"), ("X-Tenant", "me")))),
    Case("header-other-case", "`get_request_header` in another case than the client's", "probe",
         Request("POST", "/predictions/probe",
                 headers=(("x-do", "header"), ("x-argument", "X-Tenant"), ("x-tenant", "me"))),
         ours=Answer(200, JSON, b'{\n  "value": "me"\n}'), why=NO_CASE),
    Case("header-capitals", "`get_all_request_header` of names in capitals", "probe",
         Request("POST", "/predictions/probe", headers=(("x-do", "all_headers"), ("X-Tenant", "me"))),
         ours=Answer(200, JSON, json.dumps({
             "body": {"content-type": ""}, "content-length": "0", "explain": "False", "host": "conformance",
             "url_path": "", "x-do": "all_headers", "x-tenant": "me"}, indent=2).encode()),
         why=f"{NO_CASE}: ours are lower-case"),
    Case("header-twice", "`get_request_header` of a header that was sent twice: the last", "probe",
         Request("POST", "/predictions/probe",
                 headers=(("x-do", "header"), ("x-argument", "x-tenant"), ("x-tenant", "me"), ("x-tenant", "you")))),
    Case("header-missing", "`get_request_header` of a missing header", "probe",
         predictions("probe", x_do="header", x_argument="x-none")),
    Case("header-explain", "`get_request_header(0, \"explain\")`", "probe",
         predictions("probe", x_do="header", x_argument="explain")),
    Case("headers", "`get_all_request_header`", "probe", predictions("probe", b"x", "image/png", x_do="all_headers")),
    Case("headers-multipart", "`get_all_request_header`: the types of parts", "probe",
         predictions("probe", FORM, FORM_TYPE, x_do="all_headers")),
    Case("version", "`/predictions/<model>/<version>`", "function", predictions("function/2.0", b"text")),
    Case("version-default", "`/predictions/<model>`: the default version", "function",
         predictions("function", b"text")),
    Case("invoke", "`/models/<model>/invoke`", "function", Request("POST", "/models/function/invoke", b"text")),
    Case("invocations", "`/invocations?model_name=<model>`", "function",
         Request("POST", "/invocations?model_name=function", b"text")),
    Case("invoke-query", "`/models/<model>/invoke?k=3`: the handler gets k", "probe",
         Request("POST", "/models/probe/invoke?k=3", b"text")),
    Case("invocations-query", "`/invocations?model_name=<model>&k=3`: the handler gets both", "probe",
         Request("POST", "/invocations?model_name=probe&k=3&e=", b"text")),
    Case("invocations-headers", "`get_all_request_header` of `/invocations`", "probe",
         Request("POST", "/invocations?model_name=probe", headers=(("x-do", "all_headers"),)),
         ours=Answer(200, JSON, json.dumps({
             "body": {"content-type": ""}, "content-length": "0", "explain": "False", "host": "conformance",
             "model_name": {"content-type": ""}, "url_path": "", "x-do": "all_headers"}, indent=2).encode()),
         why="`explain` and `url_path` are there as for `/predictions`"),
    Case("invocations-form", "`/invocations` with a form: the handler gets the query beside its fields", "probe",
         Request("POST", "/invocations?model_name=probe", FORM, (("content-type", FORM_TYPE),))),
    *(
        Case(f"slash-{number}", f"`{path.replace('probe', '<model>')}`, with a slash at the end", "probe",
             Request("POST", path, b"x"))
        for number, path in enumerate((
            "/predictions/probe/", "/predictions/probe/1.0/", "/explanations/probe/", "/models/probe/invoke/"))
    ),
    *(
        Case(f"method-{method.lower()}", f"{method} of a prediction", "probe",
             Request(method, "/predictions/probe", b"x"))
        for method in ("DELETE", "PATCH")
    ),
    Case("v1-get", "GET of `/v1/models/<model>:predict`", "probe", Request("GET", "/v1/models/probe:predict"),
         ours=Refusal(405, "use OPTIONS, POST"), why="it takes POST, as with KServe"),
    Case("version-unknown", "an unknown version", "function", predictions("function/3.0"), 404,
         Refusal(404, "3.0"), f"{ERROR_FORM}; {NAMED}"),
    Case("model-unknown", "an unknown model", "none", predictions("none"), 404, Refusal(404, "none"),
         f"{ERROR_FORM}; {NAMED}"),
    Case("path-unknown", "an unknown path", "none", Request("GET", "/nothing"), 404, Refusal(404, "/nothing"),
         ERROR_FORM),
)  # fmt: skip
