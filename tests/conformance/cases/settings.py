"""Settings that concern all models: `decode_input_request=false`, and a `load_models` that names too much."""

from __future__ import annotations

from tests.conformance.case import ERROR_FORM, JSON, Case, Refusal, multipart, predictions
from tests.support.runtimes import Answer, Request

UNDECODED = Case("undecoded", "`decode_input_request=false`: a body of JSON", "probe",
                 predictions("probe", b'{"a": 1}', JSON))  # fmt: skip
UNDECODED_TEXT = Case("undecoded-text", "`decode_input_request=false`: a body of text", "probe",
                      predictions("probe", "a,ü".encode(), "text/csv"))  # fmt: skip
UNDECODED_PART = Case("undecoded-part", "`decode_input_request=false`: a part of text in a form", "probe",
                      predictions("probe", *multipart({"data": ("text/plain", "ü".encode())})))  # fmt: skip
MISSING = Case("missing-archive", "`load_models` names a missing archive: a request to its model", "gone",
               predictions("gone"), 404,
               Refusal(503, "gone is not ready: it is not served: gone.mar, which load_models names, is not in"),
               f"{ERROR_FORM}; the error names what is missing")  # fmt: skip
HEALTHY = Case("missing-archive-ping", "`load_models` names a missing archive: `/ping`", "gone",
               Request("GET", "/ping"), ours=Answer(200, JSON, b'{"status":"Healthy"}'),
               why="ours is not indented")  # fmt: skip
FIRST_LISTED = Case("first-listed", "`load_models` names two versions of a model: the first is the default",
                    "configured", predictions("configured"))  # fmt: skip
CASES = (UNDECODED, UNDECODED_TEXT, UNDECODED_PART, MISSING, HEALTHY, FIRST_LISTED)
