"""What the server makes of hooks: which are run, with what, and what their results and errors become."""

from __future__ import annotations

import gzip
import logging
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.hooked_models import NOBODY, Doubling, Headers, Naming, Predicting, Ready
from transformer_sdk.kserve import errors
from transformer_sdk.kserve.model import InferenceVerb, Model
from transformer_sdk.kserve.predictor_config import PredictorConfig
from transformer_sdk.testing import FakePredictor, TransformerServer


def raising(error: Exception) -> Predicting:
    def answer(_: Any) -> None:
        raise error

    return Predicting(answer)


def error_of(model: Model, body: Any = None, **options: Any) -> tuple[int, str, str]:
    """Status, component and message."""
    with TransformerServer(model, predictor=NOBODY, **options) as server:
        reply = server.post(body if body is not None else {"instances": [1]})
    document = reply.json()
    return reply.status, document["component"], document["error"]


# --- what goes to the predictor and back


@pytest.mark.parametrize(
    ("model", "sent", "predictions"),
    [(Ready, [1, 2], [1, 2]), (Doubling, [2, 4], [2, 4]), (Naming, [1, 2], ["1", "2"])],
    ids=["no hook", "preprocess alone", "postprocess alone"],
)
def test_hooks_stand_around_the_call_to_the_predictor(model: type[Model], sent: Any, predictions: Any) -> None:
    with FakePredictor(lambda instances: instances) as predictor:
        answer = predictor.ask(model("m"), {"instances": [1, 2]})

    assert answer == {"predictions": predictions}
    assert [one.json() for one in predictor.requests] == [{"instances": sent}]


def test_without_hooks_the_bytes_go_on_as_they_came() -> None:
    body = b'{ "instances" : [1.10, 2e0],\n "extra": "\\u00e4" }'
    with (
        FakePredictor(lambda instances: instances) as predictor,
        TransformerServer(Ready(), predictor=predictor.config) as server,
    ):
        server.post(body, headers={"Content-Type": "application/json"})

    assert predictor.requests[0].body == body


def test_the_predictor_learns_who_asks_and_in_which_trace_and_nothing_else() -> None:
    sent = {
        "Authorization": "Bearer x", "X-Request-Id": "7", "traceparent": "00-1-2-01", "b3": "1", "X-B3-TraceId": "9",
        "Cookie": "secret", "X-Other": "1",
    }  # fmt: skip
    with FakePredictor(lambda instances: instances) as predictor:
        for model in (Ready(), Doubling()):
            with TransformerServer(model, predictor=predictor.config) as server:
                server.post({"instances": [1]}, headers=sent)

    for one in predictor.requests:
        own = {name: value for name, value in one.headers.items() if name not in ("host", "content-length")}
        assert own == {
            "authorization": "Bearer x", "x-request-id": "7", "traceparent": "00-1-2-01", "b3": "1",
            "x-b3-traceid": "9", "content-type": "application/json",
        }  # fmt: skip


def test_a_request_without_an_id_gets_one_that_the_predictor_sees_too() -> None:
    with (
        FakePredictor(lambda instances: instances) as predictor,
        TransformerServer(Ready(), predictor=predictor.config) as server,
    ):
        reply = server.post({"instances": [1]})

    assert predictor.requests[0].headers["x-request-id"] == reply.headers["x-request-id"]


def test_headers_that_preprocess_writes_are_the_predictors() -> None:
    class Signing(Ready):
        def preprocess(self, payload: Any, headers: Headers = None) -> Any:
            assert headers is not None
            headers["Authorization"] = "Bearer predictor"
            headers["x-request-id"] = "8"
            del headers["b3"]
            return payload

    sent = {"Authorization": "Bearer client", "X-Request-Id": "7", "b3": "1", "traceparent": "00-1-2-01"}
    with (
        FakePredictor(lambda instances: instances) as predictor,
        TransformerServer(Signing(), predictor=predictor.config) as server,
    ):
        server.post({"instances": [1]}, headers=sent)

    got = predictor.requests[0].headers
    assert {name: got.get(name) for name in ("authorization", "x-request-id", "b3", "traceparent")} == {
        "authorization": "Bearer predictor", "x-request-id": "8", "b3": None, "traceparent": "00-1-2-01",
    }  # fmt: skip


def test_a_header_that_cannot_be_sent_is_the_hooks_fault() -> None:
    class Wrong(Ready):
        def preprocess(self, payload: Any, headers: Headers = None) -> Any:
            assert headers is not None
            headers["authorization"] = "two\nlines"
            return payload

    assert error_of(Wrong()) == (
        500, "transformer",
        "A hook of model m wrote a header that cannot be sent: The header 'authorization' holds a line break.",
    )  # fmt: skip


class Validating(Ready):
    def validate(self, payload: Any) -> Any:
        if not payload["instances"]:
            raise errors.InvalidInput("no instances")
        return {"instances": payload["instances"][:1]}


@pytest.mark.parametrize("verb", ["predict", "explain"])
def test_what_validate_returns_is_predicted_on(verb: str) -> None:
    with (
        FakePredictor(lambda instances: instances) as predictor,
        TransformerServer(Validating(), predictor=predictor.config) as server,
    ):
        replies = [server.post({"instances": one}, f"/v1/models/m:{verb}") for one in ([1, 2], [])]

    assert [reply.status for reply in replies] == [200, 400]
    assert [one.json() for one in predictor.requests] == [{"instances": [1]}]


def test_validate_is_between_preprocess_and_an_own_predict_and_runs_once() -> None:
    seen: list[Any] = []

    class Own(Doubling):
        def validate(self, payload: Any) -> Any:
            seen.append(payload)
            return {"instances": [*payload["instances"], 0]}

        def predict(self, payload: Any, headers: Headers = None) -> Any:  # type: ignore[override]
            return payload

    with TransformerServer(Own(), predictor=NOBODY) as server:
        assert server.post({"instances": [1]}).json() == {"instances": [2, 0]}
    assert seen == [{"instances": [2]}]


def test_a_picture_that_validate_lets_pass_stays_one_for_the_predictor() -> None:
    class Passing(Ready):
        def validate(self, payload: Any) -> Any:
            return payload

    with (
        FakePredictor(lambda instances: instances) as predictor,
        TransformerServer(Passing(), predictor=predictor.config) as server,
    ):
        server.post(b"\x89PNG", headers={"Content-Type": "image/png"})

    sent = predictor.requests[0]
    assert (sent.body, sent.headers["content-type"]) == (b"\x89PNG", "image/png")


def test_explanations_come_from_the_predictor_too() -> None:
    with FakePredictor(lambda instances: ["because"]) as predictor:
        answer = predictor.ask(Doubling(), {"instances": [1]}, "/v1/models/m:explain")

    assert answer == {"explanations": ["because"]}
    assert [(one.path, one.json()) for one in predictor.requests] == [("/v1/models/m:explain", {"instances": [2]})]


def test_the_old_attribute_predictor_host_is_honoured() -> None:
    with FakePredictor(lambda instances: ["found"]) as predictor:
        model = Ready()
        model.predictor_host = predictor.host
        with TransformerServer(model, predictor=NOBODY) as server:
            assert server.post({"instances": [1]}).json() == {"predictions": ["found"]}


def test_names_that_kserve_does_not_have_are_the_models_own() -> None:
    class Owner(Ready):
        def __init__(self) -> None:
            super().__init__()
            self.http_client = self.grpc_client = self.asked = self.explainer_url = "mine"
            self.closed = False

        def close(self) -> None:
            self.closed = True

    model = Owner()
    with FakePredictor(lambda instances: instances) as predictor:
        answers = [predictor.ask(model, {"instances": [1]}, f"/v1/models/m:{one}") for one in ("predict", "explain")]

    assert (answers, model.closed) == ([{"predictions": [1]}, {"explanations": [1]}], False)


def test_hooks_without_headers_are_called_without() -> None:
    class Old(Ready):
        def preprocess(self, inputs: Any) -> Any:  # type: ignore[override]
            return {"instances": [0]}

    with FakePredictor(lambda instances: instances) as predictor:
        assert predictor.ask(Old(), {"instances": [1]}) == {"predictions": [0]}


def test_response_headers_reach_the_client_where_they_are_asked_for() -> None:
    class Marked(Model):
        def __init__(self) -> None:
            super().__init__("m", return_response_headers=True)
            self.ready = True

        async def postprocess(self, result: Any, headers: Headers = None, response_headers: Headers = None) -> Any:
            assert response_headers is not None
            response_headers["x-seen"] = response_headers["content-type"]
            return result

    with (
        FakePredictor(lambda instances: instances) as predictor,
        TransformerServer(Marked(), predictor=predictor.config) as server,
    ):
        assert server.post({"instances": [1]}).headers["x-seen"] == "application/json"


def test_a_model_with_its_own_call_has_its_own_order() -> None:
    class Own(Ready):
        async def __call__(self, body: Any, headers: Headers = None, verb: Any = None) -> Any:
            return {"verb": verb.name}, {"x-own": "1"}

    with TransformerServer(Own()) as server:
        reply = server.post({"instances": []}, "/v1/models/m:explain")

    assert (reply.json(), reply.headers["x-own"]) == ({"verb": "EXPLAIN"}, "1")


class WithHeaders(Ready):
    """Its own call gives these headers with its result."""

    def __init__(self, result: Any, headers: dict[str, str]) -> None:
        super().__init__("m")
        self.given = result, headers

    async def __call__(self, body: Any, headers: Headers = None, verb: Any = None) -> Any:
        return self.given


def test_a_hooks_content_type_counts_however_it_is_written() -> None:
    with TransformerServer(WithHeaders("a,b", {"Content-Type": "text/csv"})) as server:
        assert server.post({}).headers["content-type"] == "text/csv"


@pytest.mark.parametrize("headers", [{"x-a": "1\r\nx-b: 2"}, {"x a": "1"}, {"Content-Type": "a\nb"}, {"ключ": "1"}])
def test_a_header_that_http_cannot_carry_is_the_hooks_fault(headers: dict[str, str]) -> None:
    status, _, message = error_of(WithHeaders("text", headers))

    assert (status, "which HTTP cannot carry" in message) == (500, True)


async def test_a_model_can_be_called_without_a_server() -> None:
    class Whole(Doubling):
        async def predict(self, payload: Any, headers: Headers = None) -> Any:  # type: ignore[override]
            return {"predictions": payload["instances"]}

    assert await Whole()({"instances": [1]}) == ({"predictions": [2]}, {})
    with pytest.raises(NotImplementedError):
        await Whole()({"instances": [1]}, verb=InferenceVerb.EXPLAIN)


# --- bodies


@pytest.mark.parametrize("content_type", [None, "application/json; charset=utf-8", "application/x-www-form-urlencoded"])
def test_json_is_read_whatever_curl_calls_it(content_type: str | None) -> None:
    headers = {"Content-Type": content_type} if content_type else {}
    with TransformerServer(Predicting(lambda payload: payload)) as server:
        assert server.post(b'{"a": 1}', headers=headers).json() == {"a": 1}


def test_bodies_of_other_types_are_bytes_for_the_hooks() -> None:
    with TransformerServer(Predicting(lambda payload: {"length": len(payload)})) as server:
        assert server.post(b"\x89PNG", headers={"Content-Type": "image/png"}).json() == {"length": 4}


def test_a_cloud_event_is_unwrapped_for_the_hooks_and_its_answer_is_one() -> None:
    event = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "s", "ce-type": "t", "Content-Type": "image/png"}
    with TransformerServer(Predicting(lambda payload: payload)) as server:
        reply = server.post(b'{"a": 1}', headers=event)

    assert (reply.json(), reply.headers["ce-type"]) == ({"a": 1}, "io.kserve.inference.response")


def test_of_an_event_that_no_header_calls_one_hooks_see_the_data_too() -> None:
    event = {"specversion": "1.0", "id": "1", "source": "s", "type": "t", "time": "2030-01-01T00:00:00Z"}
    with TransformerServer(Predicting(lambda payload: payload), predictor=NOBODY) as server:
        reply = server.post({**event, "data": {"a": 1}})

    assert (reply.json(), "ce-type" in reply.headers) == ({"a": 1}, False)


def test_a_compressed_body_is_refused_with_what_to_do() -> None:
    with TransformerServer(Predicting(lambda payload: payload), predictor=NOBODY) as server:
        reply = server.post(gzip.compress(b"{}"), headers={"Content-Encoding": "gzip"})

    assert (reply.status, "send it as it is, uncompressed" in reply.json()["error"]) == (415, True)


@pytest.mark.parametrize(
    ("result", "content_type", "body"),
    [
        ({"predictions": [1]}, "application/json", b'{"predictions":[1]}'),
        ([1, 2], "application/json", b"[1,2]"),
        ("text", "text/plain; charset=utf-8", b"text"),
        (b"\x00", "application/octet-stream", b"\x00"),
    ],
    ids=["document", "list", "text", "bytes"],
)
def test_whatever_a_hook_returns_is_sent_as_what_it_is(result: Any, content_type: str, body: bytes) -> None:
    with TransformerServer(Predicting(lambda _: result)) as server:
        reply = server.post({})

    assert (reply.status, reply.headers["content-type"], reply.body) == (200, content_type, body)


def test_arrays_of_numpy_are_lists_for_the_client() -> None:
    import numpy as np

    with TransformerServer(Predicting(lambda _: {"predictions": np.array([[1.5, 2]])})) as server:
        assert server.post({}).json() == {"predictions": [[1.5, 2.0]]}


# --- streams


class Streaming(Ready):
    def __init__(self, fails: bool = False) -> None:
        super().__init__()
        self.fails = fails
        self.ended = threading.Event()

    async def predict(self, payload: Any, headers: Headers = None) -> AsyncIterator[str]:  # type: ignore[override]
        try:
            for word in ("one ", "two "):
                yield word
            if self.fails:
                raise ValueError("late")
            yield "three"
        finally:
            self.ended.set()


def test_pieces_are_sent_as_they_are_made() -> None:
    model = Streaming()
    with TransformerServer(model) as server:
        reply = server.post({})

    assert (reply.status, reply.body) == (200, b"one two three")
    assert reply.headers["transfer-encoding"] == "chunked"


def test_a_stream_that_fails_breaks_off_so_that_the_client_can_tell(caplog: pytest.LogCaptureFixture) -> None:
    import http.client

    model = Streaming(fails=True)
    with TransformerServer(model) as server, pytest.raises(http.client.IncompleteRead):
        server.post({})

    assert model.ended.is_set()
    assert "ValueError: late" in caplog.text


# --- errors


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (errors.InvalidInput("bad pixels"), 400, "bad pixels"),
        (errors.ModelNotFound("x"), 404, "Model with name x does not exist."),
        (errors.ModelNotReady("x", "Wait."), 503, "Model with name x is not ready. Wait."),
        (errors.UnsupportedProtocol("v9"), 501, "Unsupported protocol v9."),
        (errors.InferenceError("no"), 500, "no"),
        (errors.InferenceError("busy", 429), 429, "[429] busy"),
        (NotImplementedError("later"), 501, "later"),
        (KeyError("k"), 500, "KeyError : 'k'"),
        (StopIteration("x"), 500, "RuntimeError : StopIteration: x"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_what_a_hook_raises_has_its_status(error: Exception, status: int, message: str) -> None:
    got, component, said = error_of(raising(error))

    assert (got, said) == (status, message)
    assert component == ("model" if isinstance(error, errors.InferenceError) else "transformer")


class HTTPException(Exception):
    """As FastAPI's and Starlette's."""

    def __init__(self, status_code: int, detail: Any, headers: dict[str, str] | None = None) -> None:
        self.status_code, self.detail, self.headers = status_code, detail, headers


@pytest.mark.parametrize(
    ("detail", "said"),
    [("teapot", "teapot"), ({"code": 7}, '{"code":7}'), (["a", "b"], '["a","b"]')],
    ids=["text", "document", "list"],
)
def test_exceptions_of_web_frameworks_keep_status_detail_and_headers(detail: Any, said: str) -> None:
    error = HTTPException(401, detail, {"WWW-Authenticate": "Bearer", "Retry-After": "9", "Content-Length": "1"})
    with TransformerServer(raising(error)) as server:
        reply = server.post({}, headers={"X-Request-Id": "7"})

    assert (reply.status, reply.json()) == (
        401, {"detail": detail, "error": said, "component": "transformer", "request_id": "7"},
    )  # fmt: skip
    assert (reply.headers["www-authenticate"], reply.headers["retry-after"]) == ("Bearer", "9")


def test_an_exceptions_headers_that_the_server_writes_are_the_servers_alone() -> None:
    theirs = {"X-Request-Id": "8", "Date": "then", "Server": "theirs", "Keep-Alive": "timeout=9", "Connection": "close"}
    with TransformerServer(raising(HTTPException(401, "no", theirs))) as server:
        headers = server.post({}, headers={"X-Request-Id": "7"}).headers

    assert (headers["x-request-id"], headers["date"].endswith("GMT")) == ("7", True)
    assert headers.keys() == {"content-type", "content-length", "x-request-id", "date"}


@pytest.mark.parametrize(("name", "value"), [("x-a", "1\r\nx-b: 2"), ("x a", "1"), ("ключ", "1")])
def test_an_exceptions_header_that_http_cannot_carry_is_the_hooks_fault(name: str, value: str) -> None:
    assert error_of(raising(HTTPException(401, "no", {name: value}))) == (
        500, "transformer", f"A hook set the header {name!r} to {value!r}, which HTTP cannot carry.",
    )  # fmt: skip


def test_a_header_may_hold_text_that_http_has_no_letters_for() -> None:
    with TransformerServer(raising(HTTPException(401, "no", {"x-a": "é, ж"}))) as server:
        reply = server.post({})

    assert (reply.status, reply.headers["x-a"]) == (401, "é, ?")


def test_a_detail_that_is_no_json_is_told_as_text() -> None:
    assert error_of(raising(HTTPException(418, {1}))) == (418, "transformer", "{1}")


class OfAnotherService(Exception):
    def __init__(self, status_code: int) -> None:
        super().__init__("said")
        self.status_code = status_code


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (HTTPException(204, "said"), "HTTPException : (204, 'said')"),
        (HTTPException(0, "said"), "HTTPException : (0, 'said')"),
        (OfAnotherService(404), "OfAnotherService : said"),
    ],
    ids=["no error", "no status", "no detail"],
)
def test_other_exceptions_with_a_status_code_are_failures_of_the_hook(error: Exception, message: str) -> None:
    assert error_of(raising(error)) == (500, "transformer", message)


def test_a_hook_that_fails_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    error_of(raising(KeyError("k")))

    assert "predict of model m raised" in caplog.text
    assert "in answer" in caplog.text


@pytest.mark.parametrize("result", [None, {1, 2}, object()], ids=["None", "set", "object"])
def test_a_result_that_cannot_be_sent_is_the_hooks_fault(result: Any) -> None:
    status, component, message = error_of(Predicting(lambda _: result))

    assert (status, component) == (500, "transformer")
    assert type(result).__name__.removesuffix("Type") in message


def test_validate_must_return_what_is_predicted_on() -> None:
    class Wrong(Ready):
        def validate(self, payload: Any) -> Any:
            pass

    assert error_of(Wrong()) == (500, "transformer", "validate of model m returned None: it has no return.")


@pytest.mark.parametrize("result", [None, {1, 2}, 5j], ids=["None", "set", "complex"])
def test_preprocess_must_return_what_can_be_sent_to_a_predictor(result: Any) -> None:
    class Wrong(Ready):
        def preprocess(self, payload: Any, headers: Headers = None) -> Any:
            return result

    status, component, message = error_of(Wrong())

    assert (status, component) == (500, "transformer")
    assert message.startswith("preprocess of model m returned ")


def test_a_body_that_is_no_json_is_the_clients_fault() -> None:
    assert error_of(Doubling(), b'{"instances": ') == (
        400, "server", "The request body is not valid JSON: unexpected end of data (line 1, column 15).",
    )  # fmt: skip


def test_a_predictors_error_passes_through_with_who_said_it() -> None:
    with FakePredictor(lambda instances: instances) as predictor:
        predictor.fail(422, "wrong shape")
        for model in (Ready(), Doubling(), Naming()):
            with TransformerServer(model, predictor=predictor.config) as server:
                reply = server.post({"instances": [1]})
            assert (reply.status, reply.json()["error"], reply.json()["component"]) == (
                422, "wrong shape", "predictor/model",
            )  # fmt: skip


def test_a_predictor_that_is_down_is_a_503_that_names_it() -> None:
    status, component, message = error_of(Ready())

    assert (status, component) == (503, "predictor")
    assert message.startswith("The predictor at http://127.0.0.1:1 cannot be reached: Connection refused")


def test_a_transformer_without_a_predictor_says_what_to_give() -> None:
    with TransformerServer(Ready(), predictor=PredictorConfig("")) as server:
        reply = server.post({"instances": [1]})

    assert (reply.status, reply.json()["error"]) == (
        501, "Model m has no predictor to ask: give --predictor_host, or override predict.",
    )  # fmt: skip


# --- metrics


def test_metrics_tell_the_times_of_hooks_and_those_that_users_count() -> None:
    from prometheus_client import REGISTRY, Counter

    counter = Counter("digits_seen", "Digits.")
    try:
        counter.inc()
        with (
            FakePredictor(lambda instances: instances) as predictor,
            TransformerServer(Doubling(), predictor=predictor.config) as server,
        ):
            server.post({"instances": [1]})
            text = server.get("/metrics").body.decode()
    finally:
        REGISTRY.unregister(counter)

    assert 'request_preprocess_seconds_count{model_name="m"} 1.0' in text
    assert 'request_predict_seconds_count{model_name="m"} 1.0' in text
    assert "digits_seen_total 1.0" in text


@pytest.mark.parametrize("failing", ["preprocess", "predict"])
def test_a_request_that_fails_is_timed_as_far_as_it_came(failing: str, caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Doubling):
        def preprocess(self, payload: Any, headers: Headers = None) -> Any:
            if failing == "preprocess":
                raise errors.InvalidInput("no")
            return super().preprocess(payload, headers)

    model = Failing()
    model.enable_latency_logging = True
    caplog.set_level(logging.INFO, "kserve.trace")
    with TransformerServer(model, predictor=NOBODY) as server:
        server.post({"instances": [1]}, headers={"X-Request-Id": "7"})
        text = server.get("/metrics").body.decode()

    assert 'request_preprocess_seconds_count{model_name="m"} 1.0' in text
    assert f'request_predict_seconds_count{{model_name="m"}} {float(failing == "predict")}' in text
    assert [one for one in caplog.messages if one.startswith("requestId: 7, preprocess_ms: ")]
