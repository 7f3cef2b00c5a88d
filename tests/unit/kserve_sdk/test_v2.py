"""The v2 protocol through hooks: over HTTP, with raw tensors, and over gRPC on both sides."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import http.client
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import numpy as np
import pytest

from data_plane import limits
from data_plane.client.errors import PredictorBroken, PredictorError, PredictorTimeout, PredictorUnreachable
from data_plane.client.responses import UpstreamResponse
from data_plane.errors import DeadlineExceeded, InferenceFailed
from data_plane.server.metrics import ServerMetrics
from tests.support.fake_models import FakeModel, serving
from tests.support.grpc_servers import grpc_port
from transformer_sdk.kserve import (
    InferenceGRPCClient,
    InferInput,
    InferOutput,
    InferRequest,
    InferResponse,
    Model,
    ModelRepository,
    PredictorConfig,
    context,
)
from transformer_sdk.kserve.inference_client import decode_infer
from transformer_sdk.kserve.serving.metrics import HookMetrics
from transformer_sdk.kserve.serving.repository import HookedModels
from transformer_sdk.kserve.serving.threads import HookThreads
from transformer_sdk.testing import FakePredictor, TransformerServer

INFER = "/v2/models/m/infer"
BODY = {"id": "7", "inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2]}]}


class Doubling(Model):
    def __init__(self, **more: Any) -> None:
        super().__init__("m", **more)
        self.ready = True

    def preprocess(self, payload: InferRequest, headers: dict[str, str] | None = None) -> InferRequest:
        doubled = payload.inputs[0].as_numpy() * 2
        one = InferInput("x", list(doubled.shape), "FP32")
        one.set_data_from_numpy(doubled)
        return InferRequest(self.name, [one], payload.id, parameters=payload.parameters)


class Named(Doubling):
    def postprocess(
        self, result: InferResponse, headers: Any = None, response_headers: dict[str, str] | None = None
    ) -> InferResponse:
        assert response_headers is not None
        response_headers["Inference-Header-Content-Length"] = "7"
        return result


class Through(Model):
    def __init__(self, **more: Any) -> None:
        super().__init__("m", **more)
        self.ready = True


def summed(request: InferRequest) -> list[InferOutput]:
    return [InferOutput("sum", [1], "FP32", [float(request.inputs[0].as_numpy().sum())])]


def test_a_predictors_length_of_json_is_not_sent_beside_the_answers_own() -> None:
    asked = {**BODY, "parameters": {"binary_data_output": True}}
    with (
        FakePredictor(summed, "v2") as predictor,
        TransformerServer(Named(return_response_headers=True), predictor=predictor.config) as server,
        contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port)) as connection,
    ):
        connection.request("POST", INFER, json.dumps(asked))
        headers = connection.getresponse().getheaders()

    assert [name for name, _ in headers].count("inference-header-content-length") == 1


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (InferOutput("o", [3], "FP32", [1, 2]), 'Tensor "o": shape [3] has 3 elements, the data has 2'),
        (InferOutput("o", [3], "FP32", [[1], [2]]), 'Tensor "o": '),
        (InferOutput("o", [3], "FP32", np.ones(2)), 'Tensor "o": shape [3] has 3 elements, the data has 2'),
        (InferOutput("o", [3], "BYTES", ["a"]), 'Tensor "o": shape [3] has 3 elements, the data has 1'),
    ],
    ids=["list", "rows", "array", "text"],
)
async def test_outputs_that_contradict_themselves_are_the_hooks_fault(output: InferOutput, words: str) -> None:
    """Over HTTP and gRPC."""

    class Contradicting(Through):
        def predict(self, payload: InferRequest, headers: Any = None) -> InferResponse:  # type: ignore[override]
            return InferResponse("r", self.name, [copy.deepcopy(output)])

    with TransformerServer(Contradicting()) as server:
        reply = server.post(BODY, INFER)
    async with grpc_transformer(Contradicting(), PredictorConfig("")) as client:
        with pytest.raises(PredictorError) as raised:
            await client.infer(asked())

    assert (reply.status, raised.value.status) == (500, 500)
    assert words in reply.json()["error"]
    assert words in str(raised.value)


@pytest.mark.parametrize("body", [b"<html>", b'{"predictions": [1]}', b'{"model_name": "m", "outputs": [{}]}'])
def test_an_answer_that_is_not_of_the_protocol_is_the_predictors_fault(body: bytes) -> None:
    with pytest.raises(PredictorBroken, match="http://there sent a response that is not v2"):
        decode_infer(UpstreamResponse(200, (), body), "http://there")


# --- gRPC


@asynccontextmanager
async def grpc_predictor(model: FakeModel) -> AsyncIterator[PredictorConfig]:
    async with grpc_port(serving(model)) as port:
        yield PredictorConfig(f"127.0.0.1:{port}", "grpc-v2", predictor_request_timeout_seconds=30)


@asynccontextmanager
async def grpc_transformer(model: Model, config: PredictorConfig) -> AsyncIterator[InferenceGRPCClient]:
    context.set_predictor_config(config)
    repository, metrics = ModelRepository(), ServerMetrics()
    repository.update(model)
    models = HookedModels(repository, HookThreads(2), HookMetrics(metrics.registry))
    async with (
        grpc_port(models, metrics, request_timeout_s=30) as port,
        InferenceGRPCClient(f"127.0.0.1:{port}", retries=0) as client,
    ):
        yield client
        await models.close()


@asynccontextmanager
async def recording_predictor(
    answer: bytes, seen: list[tuple[bytes, dict[str, Any], float]], *, cancelled: int = 0
) -> AsyncIterator[str]:
    """Answers ModelInfer with these bytes; keeps the request's bytes, metadata and seconds left. Yields its address.

    The first calls are cancelled, as a server does that ends.
    """

    async def infer(request: bytes, call: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        seen.append((request, dict(call.invocation_metadata() or ()), call.time_remaining()))
        if len(seen) <= cancelled:
            await call.abort(grpc.StatusCode.CANCELLED, "CANCELLED")
        return answer

    server = grpc.aio.server()
    methods = {"ModelInfer": grpc.unary_unary_rpc_method_handler(infer)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("inference.GRPCInferenceService", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


def asked() -> InferRequest:
    return InferRequest("m", [InferInput("x", [2], "FP32", [1.0, 2.0])], "7")


@pytest.mark.parametrize(("model", "expected"), [(Through, [1, 2]), (Doubling, [2, 4])])
async def test_grpc_goes_in_and_out_of_the_hooks(model: type[Model], expected: list[float]) -> None:
    predictor = FakeModel()
    async with grpc_predictor(predictor) as config, grpc_transformer(model(), config) as client:  # type: ignore[call-arg]
        answer = await client.infer(asked(), headers=(("authorization", "Bearer x"), ("x-other", "1")))
        ready = await client.is_model_ready("m"), await client.is_server_ready(), await client.is_server_live()

    assert (answer.id, answer.outputs[0].as_numpy().tolist(), ready) == ("7", expected, (True, True, True))
    names = {name for name, _ in predictor.calls[0].headers}
    assert {b"authorization", b"x-request-id"} <= names
    assert b"x-other" not in names


async def test_a_call_that_crosses_the_end_of_its_server_is_sent_again() -> None:
    seen: list[tuple[bytes, dict[str, Any], float]] = []
    async with recording_predictor(b"", seen, cancelled=2) as host, InferenceGRPCClient(host, retries=0) as client:
        assert await client.forward(b"\x0a\x01m") == b""

    assert [request for request, *_ in seen] == [b"\x0a\x01m"] * 3


async def test_a_call_that_is_always_cancelled_is_given_up() -> None:
    seen: list[tuple[bytes, dict[str, Any], float]] = []
    async with recording_predictor(b"", seen, cancelled=100) as host, InferenceGRPCClient(host, retries=0) as client:
        with pytest.raises(PredictorError):
            await client.forward(b"")

    assert len(seen) == 5


NOT_A_TENSOR = b"\x2a\x02\xff\xff"


@pytest.mark.parametrize("rest", [b"", b"\x1a\x017", NOT_A_TENSOR], ids=["empty", "an id", "malformed"])
async def test_without_hooks_the_bytes_of_a_grpc_request_and_its_answer_go_on_as_they_came(rest: bytes) -> None:
    message, seen = b"\x0a\x01m" + rest, []  # type: ignore[var-annotated]
    async with (
        recording_predictor(b"\xffno protobuf", seen) as host,
        grpc_transformer(Through(), PredictorConfig(host, "grpc-v2")) as client,
    ):
        answer = await client.forward(message, 20, (("traceparent", "00-1-2-01"), ("x-other", "1")))

    ((came, metadata, seconds_left),) = seen
    assert (answer, came) == (b"\xffno protobuf", message)
    assert {name for name in metadata if name != "user-agent"} == {"traceparent", "x-request-id"}
    assert 0 < seconds_left < 25, "the client gave 20, this server 30"


def as_message(response: InferResponse) -> Any:
    return response.to_grpc()


def as_fields(response: InferResponse) -> Any:
    outputs = [{"name": "y", "shape": [2], "datatype": "FP32", "contents": {"fp32_contents": [5.0, 6.0]}}]
    return {"id": response.id, "model_name": "m", "outputs": outputs}


@pytest.mark.parametrize(("last", "expected"), [(as_message, [2, 4]), (as_fields, [5, 6])])
async def test_hooks_may_speak_in_messages_of_grpc(last: Any, expected: list[float]) -> None:
    class Speaking(Doubling):
        def preprocess(self, payload: InferRequest, headers: Any = None) -> Any:
            return super().preprocess(payload).to_grpc()

        def postprocess(self, result: InferResponse, headers: Any = None) -> Any:  # type: ignore[override]
            return last(result)

    async with grpc_predictor(FakeModel()) as config, grpc_transformer(Speaking(), config) as client:
        answer = await client.infer(asked())

    assert (answer.id, answer.outputs[0].as_numpy().tolist()) == ("7", expected)


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ([1], "returned list, which gRPC does not send: it is neither an InferResponse nor a ModelInferResponse."),
        ({"predictions": [1]}, "returned dict, which gRPC does not send: it is not a ModelInferResponse: 'id'."),
        ({"id": "7", "model_name": "m", "outputs": [{"data": [1]}]}, "it is not a ModelInferResponse: "),
    ],
    ids=["a list", "another document", "outputs of JSON"],
)
async def test_what_grpc_cannot_send_is_the_hooks_fault(result: Any, words: str) -> None:
    class Wrong(Through):
        async def predict(self, payload: InferRequest, headers: Any = None) -> Any:  # type: ignore[override]
            return result

    async with grpc_transformer(Wrong(), PredictorConfig("")) as client:
        with pytest.raises(PredictorError) as raised:
            await client.infer(asked())

    assert raised.value.status == 500
    assert words in str(raised.value)


async def test_where_a_hook_looks_at_grpc_requests_a_malformed_one_is_refused_here() -> None:
    seen: list[Any] = []
    async with (
        recording_predictor(b"", seen) as host,
        grpc_transformer(Doubling(), PredictorConfig(host, "grpc-v2")) as client,
    ):
        with pytest.raises(PredictorError, match=r"The body is not a inference\.ModelInferRequest") as raised:
            await client.forward(b"\x0a\x01m" + NOT_A_TENSOR)

    assert (raised.value.status, seen) == (400, [])


async def test_a_model_that_is_not_served_is_not_asked_of_the_predictor() -> None:
    seen: list[Any] = []
    async with (
        recording_predictor(b"", seen) as host,
        grpc_transformer(Through(), PredictorConfig(host, "grpc-v2")) as client,
    ):
        with pytest.raises(PredictorError, match="Model with name x does not exist") as raised:
            await client.forward(b"\x0a\x01x")

    assert (raised.value.status, seen) == (404, [])


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 501, 503])
async def test_a_predictors_refusal_over_grpc_reaches_the_client_with_its_status(status: int) -> None:
    async def refuse(*_: Any) -> Any:
        raise InferenceFailed("no", status)

    async with grpc_predictor(FakeModel(refuse)) as config, grpc_transformer(Through(), config) as client:
        with pytest.raises(PredictorError, match="no") as raised:
            await client.infer(asked())

    assert (raised.value.status, raised.value.component) == (status, "predictor")


async def test_a_predictor_over_grpc_that_has_a_limit_of_its_own_needs_none_of_the_clients() -> None:
    async def too_late(*_: Any) -> Any:
        raise DeadlineExceeded("late")

    async with grpc_predictor(FakeModel(too_late)) as config, InferenceGRPCClient(config.predictor_host) as client:
        with pytest.raises(PredictorTimeout, match="within its own time limit"):
            await client.infer(asked(), timeout=None)


async def test_an_answer_over_grpc_that_is_no_message_is_the_predictors_fault() -> None:
    async with recording_predictor(b"\xff", []) as host, InferenceGRPCClient(host) as client:
        with pytest.raises(PredictorBroken, match=r"is not a valid inference\.ModelInferResponse"):
            await client.infer(asked())


async def test_an_answer_over_grpc_that_is_over_the_bound_is_the_predictors_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "MAX_RESPONSE", 1000)
    async with recording_predictor(bytes(2000), []) as host, InferenceGRPCClient(host) as client:
        with pytest.raises(
            PredictorBroken, match=r"a response that is too large: .*larger than max \(2000 vs\. 1000\)"
        ):
            await client.infer(asked())


async def test_attempts_to_connect_over_grpc_end_with_the_requests_time_however_many_there_may_be() -> None:
    async with InferenceGRPCClient("127.0.0.1:1", retries=1_000_000) as client:
        with pytest.raises((PredictorUnreachable, PredictorTimeout)):
            await client.infer(asked(), timeout=0.3)


async def test_a_grpc_predictor_that_is_silent_or_down_is_named() -> None:
    async def wait(*_: Any) -> Any:
        await asyncio.Event().wait()

    async with grpc_predictor(FakeModel(wait)) as config:
        host = config.predictor_host
        async with InferenceGRPCClient(host) as client:
            with pytest.raises(PredictorTimeout, match=host):
                await client.infer(asked(), timeout=0.05)
    async with InferenceGRPCClient(host, retries=0) as client:
        with pytest.raises(PredictorUnreachable, match=host):
            await client.infer(asked())
