"""What clients are told when a hook raises, gives what cannot be sent, or has no predictor that answers."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tests.support.sdk_models import NOBODY, Doubling, Headers, Naming, Predicting, Ready, WithHeaders
from transformer_sdk.kserve.model import Model
from transformer_sdk.kserve.predictor_config import PredictorConfig
from transformer_sdk.kserve.serving.exchange import Exchange
from transformer_sdk.kserve.serving.hooks import Hook
from transformer_sdk.kserve.serving.threads import HookThreads
from transformer_sdk.testing import FakePredictor, TransformerServer


def raising(error: BaseException) -> Predicting:
    def answer(_: Any) -> None:
        raise error

    return Predicting(answer)


def error_of(model: Model, body: Any = None, **options: Any) -> tuple[int, str, str]:
    """Status, component and message."""
    with TransformerServer(model, predictor=NOBODY, **options) as server:
        reply = server.post(body if body is not None else {"instances": [1]})
    document = reply.json()
    return reply.status, document["component"], document["error"]


def test_a_body_that_is_empty_is_called_so() -> None:
    assert error_of(Doubling(), b"") == (400, "server", "The request body is empty; send JSON.")


ENDS: list[tuple[BaseException, str]] = [
    (SystemExit(3), "SystemExit : 3"),
    (KeyboardInterrupt(), "KeyboardInterrupt : "),
    (GeneratorExit(), "GeneratorExit : "),
    (BaseException("b"), "BaseException : b"),
    (asyncio.CancelledError("inner"), "CancelledError : inner"),
]


class RaisingAsync(Ready):
    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self._error = error

    async def predict(self, payload: Any, headers: Headers = None) -> Any:
        raise self._error


@pytest.mark.parametrize(("error", "message"), ENDS, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("make", [raising, RaisingAsync], ids=["sync", "async"])
def test_what_would_end_a_process_or_a_task_is_an_error_as_any_other(
    make: Callable[[BaseException], Model], error: BaseException, message: str
) -> None:
    """It is answered and counted, and the next request is as well."""
    tensor = {"name": "a", "datatype": "INT64", "shape": [1], "data": [1]}
    with TransformerServer(make(error), predictor=NOBODY) as server:
        replies = [server.post({"instances": [1]}), server.post({"inputs": [tensor]}, "/v2/models/m/infer")]
        metrics = server.get("/metrics").body.decode()

    assert [(one.status, one.json()["error"], one.json()["component"]) for one in replies] == [
        (500, message, "transformer")
    ] * 2
    assert all("x-request-id" in one.headers for one in replies)
    counted = [line for line in metrics.splitlines() if line.startswith("http_requests_total{") and "500" in line]
    assert [line.rpartition(" ")[2] for line in counted] == ["1.0", "1.0"]


def test_pieces_that_end_the_process_break_off_their_answer_alone() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"first"
        raise SystemExit(3)

    with TransformerServer(Predicting(lambda _: pieces()), predictor=NOBODY) as server:
        with pytest.raises(http.client.IncompleteRead):
            server.post({"instances": [1]})
        assert server.get("/v2/health/live").status == 200


async def test_a_request_whose_own_task_is_cancelled_ends() -> None:
    begun = asyncio.Event()

    class Waiting(Ready):
        async def predict(self, payload: Any, headers: Headers = None) -> Any:  # type: ignore[override]
            begun.set()
            await asyncio.Event().wait()

    hook = Hook(Waiting(), "predict", HookThreads(0))
    exchange = SimpleNamespace(remaining_s=lambda: 30.0)
    request = asyncio.create_task(hook(cast("Exchange", exchange), {}))
    await begun.wait()
    request.cancel()

    with pytest.raises(asyncio.CancelledError):
        await request


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


@pytest.mark.parametrize("headers", [{"x-a": "1\r\nx-b: 2"}, {"x a": "1"}, {"Content-Type": "a\nb"}, {"ключ": "1"}])
def test_a_header_that_http_cannot_carry_is_the_hooks_fault(headers: dict[str, str]) -> None:
    status, _, message = error_of(WithHeaders("text", headers))

    assert (status, "which HTTP cannot carry" in message) == (500, True)


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


def test_a_predictors_error_passes_through_with_who_said_it() -> None:
    with FakePredictor(lambda instances: instances) as predictor:
        predictor.fail(422, "wrong shape")
        for model in (Ready(), Doubling(), Naming()):
            with TransformerServer(model, predictor=predictor.config) as server:
                reply = server.post({"instances": [1]})
            assert (reply.status, reply.json()["error"], reply.json()["component"]) == (
                422, "wrong shape", "predictor/model",
            )  # fmt: skip


def test_a_transformer_without_a_predictor_says_what_to_give() -> None:
    with TransformerServer(Ready(), predictor=PredictorConfig("")) as server:
        reply = server.post({"instances": [1]})

    assert (reply.status, reply.json()["error"]) == (
        501, "Model m has no predictor to ask: give --predictor_host, or override predict.",
    )  # fmt: skip


def test_what_is_no_list_is_the_fault_of_who_made_it() -> None:
    class Wrong(Ready):
        def preprocess(self, payload: Any, headers: Headers = None) -> Any:
            return {"instances": np.float32(1)}

    said = 'Expected "instances" to be a list'
    assert error_of(Wrong(), {"instances": 1}) == (400, "server", said)
    assert error_of(Wrong()) == (
        500, "transformer", f"preprocess of model m returned what cannot be sent to a predictor: {said}.",
    )  # fmt: skip
