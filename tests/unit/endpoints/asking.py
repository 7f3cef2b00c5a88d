"""Requests to the whole application, through its wire, without a server; and a model that keeps what it got."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson

from data_plane.messages import Headers, Response
from data_plane.model import Call, Models, ServableModel
from data_plane.model_server.life import Listeners
from data_plane.model_server.serving import build_app
from data_plane.protocol.torchserve.requests import RawRequest
from data_plane.protocol.v1 import PredictRequest
from data_plane.protocol.v2.requests import TensorRequest, TensorResponse
from data_plane.protocol.v2.tensors import Tensor
from data_plane.server.metrics import ServerMetrics
from tests.support.fake_models import FakeModel, serving

REQUEST_ID = "7"


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    headers: Mapping[str, str] = field(compare=False, default_factory=dict)

    @property
    def document(self) -> Any:
        return orjson.loads(self.body)


@dataclass
class RecordingModel(FakeModel):
    """Answers in every protocol with what it got."""

    async def predict(self, request: PredictRequest, call: Call) -> Response:
        return self._echo("predictions", request.body, call)

    async def explain(self, request: PredictRequest, call: Call) -> Response:
        return self._echo("explanations", request.body, call)

    async def raw(self, request: RawRequest, call: Call) -> Response:
        self.calls.append(call)
        call.timings["model"] = 0.0015
        told = f"{self.version} {request.content_type} {request.path} {request.explain} ".encode() + b"".join(
            b"%b=%b " % (key.encode(), value) for key, value in request.fields
        )
        return Response(told + request.body, 201, b"text/plain", ((b"x-of-handler", b"yes"),))

    def _echo(self, key: str, body: bytes, call: Call) -> Response:
        self.calls.append(call)
        call.timings["model"] = 0.0015
        return Response(orjson.dumps({key: orjson.loads(body)["instances"]}))


async def doubled(request: TensorRequest, call: Call) -> TensorResponse:
    """Every input twice as large, with the request's parameters."""
    call.timings["model"] = 0.0015
    outputs = tuple(Tensor.from_numpy(one.name, one.data * np.array(2, one.data.dtype)) for one in request.inputs)
    return TensorResponse("m", "1", outputs, None, request.parameters)


class Server:
    """The application over models: one, `m` in versions 1 and 2, unless told otherwise."""

    def __init__(
        self,
        *models: ServableModel,
        expected: tuple[str, ...] = (),
        alias: str | None = None,
        cors: Headers = (),
        max_request_size: int = 1_000_000,
    ) -> None:
        self.model = RecordingModel(doubled)
        served: tuple[ServableModel, ...] = models or (self.model, RecordingModel(doubled, version="2"))
        self.models = serving(*served, expected=expected)
        if alias:
            self.models = Models(alias=alias)
            for one in served:
                self.models.add(one)
        self.client = "127.0.0.1"
        self.metrics = ServerMetrics()
        listeners = Listeners(
            listener=None,  # type: ignore[arg-type]
            host="",
            grpc_port=0,
            max_request_size=max_request_size,
            request_timeout_s=60.0,
            grace_period_s=1,
            cors=cors,
        )
        self.app = build_app(listeners, self.models, self.metrics)

    async def ask(self, method: str, path: str, body: bytes = b"", /, **headers: str) -> Answer:
        """`x_name="value"` is the header `x-name: value`."""
        messages = [{"type": "http.request", "body": body, "more_body": False}]
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return messages.pop() if messages else await asyncio.Future()  # the client stays

        async def send(message: Any) -> None:
            sent.append(message)

        path, _, query = path.partition("?")
        named = {"x-request-id": REQUEST_ID, **{name.replace("_", "-"): value for name, value in headers.items()}}
        scope = {
            "type": "http", "method": method, "path": path, "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in named.items()],
            "client": (self.client, 50000),
        }  # fmt: skip
        await self.app(scope, receive, send)
        start, *content = sent
        answered = {name.decode(): value.decode() for name, value in start["headers"]}
        return Answer(start["status"], b"".join(part["body"] for part in content), answered)


def error(message: str, component: str = "server") -> dict[str, str]:
    return {"error": message, "component": component, "request_id": REQUEST_ID}
