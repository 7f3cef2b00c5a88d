"""The v1 protocol: predict, explain, and the list and readiness of models."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from data_plane.messages import Request, Response, json_response
from data_plane.model import Call, Models, ServableModel
from data_plane.off_loop import off_loop
from data_plane.protocol import cloudevents, v1
from data_plane.protocol.cloudevents import EventStyle
from data_plane.server.endpoints import bodies
from data_plane.server.endpoints.health import model_readiness
from data_plane.server.routing import Route


class V1Endpoints:
    def __init__(self, models: Models, timeout_s: float, style: EventStyle) -> None:
        self._models = models
        self._timeout_s = timeout_s
        self._style = style

    def routes(self) -> tuple[Route, ...]:
        return (
            Route("GET", "/v1/models", self.list_models),
            Route("GET", "/v1/models/{model}", self.model_status),
            Route("POST", "/v1/models/{model}:predict", partial(self._call, explain=False), self._model),
            Route("POST", "/v1/models/{model}:explain", partial(self._call, explain=True), self._model),
        )

    async def list_models(self, _: Request) -> Response:
        return json_response({"models": self._models.names})

    async def model_status(self, request: Request) -> Response:
        return model_readiness(self._models, request.params["model"])

    def _model(self, params: Mapping[str, str]) -> ServableModel:
        return self._models.get(params["model"])

    async def _call(self, request: Request, *, explain: bool) -> Response:
        model = self._model(request.params)
        call = Call.begin(request, self._timeout_s)
        decoded, event = await off_loop(len(request.body), bodies.read, request, v1.decode_request)
        response = await (model.explain(decoded, call) if explain else model.predict(decoded, call))
        if event is None:
            return response
        return await off_loop(len(response.body), cloudevents.wrap, event, response, model.name, style=self._style)
