"""A predictor that a test makes up. It is a real server: what a transformer sends and gets has been over the wire."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from data_plane.errors import InferenceFailed, InvalidRequest
from data_plane.messages import Request, Response, json_response
from data_plane.protocol.v2.document import JSON_LENGTH, body_response
from data_plane.server.app import App
from data_plane.server.metrics import ServerMetrics
from data_plane.server.routing import Route, Router
from transformer_sdk.kserve.constants.constants import PredictorProtocol
from transformer_sdk.kserve.errors import InvalidInput as BadRequest
from transformer_sdk.kserve.model import Model
from transformer_sdk.kserve.predictor_config import PredictorConfig
from transformer_sdk.kserve.protocol.documents import dump
from transformer_sdk.kserve.protocol.infer_type import InferOutput, InferRequest, InferResponse
from transformer_sdk.testing.background import BackgroundServer
from transformer_sdk.testing.server import TransformerServer

_MAX_REQUEST = 1 << 30

Predict = Callable[[Any], Any]


@dataclass(frozen=True)
class PredictorRequest:
    path: str
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body's document; of a v2 body with raw tensors, the part before them."""
        length = self.headers.get(JSON_LENGTH.decode())
        return orjson.loads(self.body[: int(length)] if length else self.body)


class FakePredictor:
    """Answers by a function: with v1 from the list of instances to the list of predictions, with v2 from an
    InferRequest to a list of InferOutputs. `fail` makes it refuse instead.
    """

    def __init__(self, predict: Predict, protocol: str = PredictorProtocol.REST_V1.value) -> None:
        self.requests: list[PredictorRequest] = []
        self.protocol = protocol
        self._predict = predict
        self._failure: InferenceFailed | None = None
        self._server = BackgroundServer(self._make_app)

    @property
    def host(self) -> str:
        """Return the value for --predictor_host."""
        return f"127.0.0.1:{self._server.port}"

    @property
    def config(self) -> PredictorConfig:
        """Return the configuration for models that a test creates itself."""
        return PredictorConfig(self.host, self.protocol, predictor_request_timeout_seconds=30)

    def fail(self, status: int, message: str = "made to fail") -> None:
        """Answer with this error from now on."""
        self._failure = InferenceFailed(message, status)

    def recover(self) -> None:
        """Answer by the function again."""
        self._failure = None

    def ask(self, model: Model, body: Any, path: str | None = None) -> Any:
        """The document that a client gets when it sends `body` to a server of this model; raises AssertionError
        for a status other than 200.
        """
        with TransformerServer(model, predictor=self.config) as server:
            reply = server.post(body, path)
        assert reply.status == 200, f"{reply.status} {reply.body.decode(errors='replace')}"  # noqa: S101 - for tests
        return reply.json()

    def __enter__(self) -> FakePredictor:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()

    @contextlib.asynccontextmanager
    async def _make_app(self) -> AsyncIterator[App]:
        routes = [
            Route("POST", "/v1/models/{model}:predict", self._answer_v1),
            Route("POST", "/v1/models/{model}:explain", self._answer_v1),
            Route("GET", "/v1/models/{model}", self._ready),
            Route("POST", "/v2/models/{model}/infer", self._answer_v2),
            Route("GET", "/v2/models/{model}/ready", self._ready),
        ]
        yield App(Router(routes), ServerMetrics(), _MAX_REQUEST)

    async def _ready(self, request: Request) -> Response:
        return json_response({"name": request.params["model"], "ready": self._failure is None})

    async def _answer_v1(self, request: Request) -> Response:
        self._keep(request)
        try:
            instances: Sequence[Any] = orjson.loads(request.body)["instances"]
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise InvalidRequest('The request has no "instances"; send {"instances": [...]}.') from error
        key = "explanations" if request.path.endswith(":explain") else "predictions"
        return Response(dump({key: self._predict(instances)}))

    async def _answer_v2(self, request: Request) -> Response:
        self._keep(request)
        length = request.header(JSON_LENGTH)
        try:
            asked = InferRequest.from_bytes(request.body, int(length) if length else None, request.params["model"])
        except BadRequest as error:
            raise InvalidRequest(str(error)) from error
        outputs: list[InferOutput] = self._predict(asked)
        answer = InferResponse(
            asked.id, request.params["model"], outputs,
            use_binary_outputs=asked.use_binary_outputs, requested_outputs=asked.request_outputs,
        )  # fmt: skip
        document, json_length = answer.to_rest()
        return body_response(document if isinstance(document, bytes) else dump(document), json_length)

    def _keep(self, request: Request) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers}
        self.requests.append(PredictorRequest(request.path, headers, request.body))
        if self._failure is not None:
            raise self._failure
