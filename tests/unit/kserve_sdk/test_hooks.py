"""Which hooks the server runs, with what, around which call to the predictor, and how they are timed."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from tests.support.sdk_models import NOBODY, Doubling, Headers, Ready
from transformer_sdk.kserve import errors
from transformer_sdk.testing import FakePredictor, TransformerServer


def test_without_hooks_the_bytes_go_on_as_they_came() -> None:
    body = b'{ "instances" : [1.10, 2e0],\n "extra": "\\u00e4" }'
    with (
        FakePredictor(lambda instances: instances) as predictor,
        TransformerServer(Ready(), predictor=predictor.config) as server,
    ):
        server.post(body, headers={"Content-Type": "application/json"})

    assert predictor.requests[0].body == body


def test_the_predictor_learns_who_asks_in_which_trace_and_sequence_and_nothing_else() -> None:
    sent = {
        "Authorization": "Bearer x", "X-Request-Id": "7", "traceparent": "00-1-2-01", "b3": "1", "X-B3-TraceId": "9",
        "ts_request_sequence_id": "a", "Cookie": "secret", "X-Other": "1",
    }  # fmt: skip
    with FakePredictor(lambda instances: instances) as predictor:
        for model in (Ready(), Doubling()):
            with TransformerServer(model, predictor=predictor.config) as server:
                server.post({"instances": [1]}, headers=sent)

    for one in predictor.requests:
        own = {name: value for name, value in one.headers.items() if name not in ("host", "content-length")}
        assert own == {
            "authorization": "Bearer x", "x-request-id": "7", "traceparent": "00-1-2-01", "b3": "1",
            "x-b3-traceid": "9", "ts_request_sequence_id": "a", "content-type": "application/json",
        }  # fmt: skip


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


class Preparing(Ready):
    """Sends the predictor what a test says."""

    def __init__(self, prepared: Any) -> None:
        super().__init__()
        self._prepared = prepared

    def preprocess(self, payload: Any, headers: Headers = None) -> Any:
        return self._prepared


class Foreign:
    """An array of another library, with the names that all of them have."""

    ndim = 2

    def tolist(self) -> list[list[int]]:
        return [[1, 2], [3, 4]]


ARRAY = np.array([[1, 2], [3, 4]])


@pytest.mark.parametrize(
    "instances",
    [ARRAY, ARRAY.T.copy().T, ARRAY.astype(np.float16), [ARRAY[0], *ARRAY.T.copy().T[1:]], tuple(ARRAY), Foreign()],
    ids=["numpy", "transposed", "FP16", "nested", "tuple", "of another library"],
)
def test_arrays_that_preprocess_returns_are_sent_as_lists(instances: Any) -> None:
    with (
        FakePredictor(lambda instances: instances) as predictor,
        TransformerServer(Preparing({"instances": instances}), predictor=predictor.config) as server,
    ):
        reply = server.post({"instances": []})

    assert (reply.status, reply.json()) == (200, {"predictions": [[1, 2], [3, 4]]})


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
