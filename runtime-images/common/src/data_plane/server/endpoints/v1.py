"""The v1 protocol: predict, explain, and the list and readiness of models."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping

from data_plane.messages import Request, Response, json_response
from data_plane.model import Models, ServableModel
from data_plane.off_loop import off_loop
from data_plane.protocol import cloudevents, json_text, v1
from data_plane.protocol.cloudevents import EventStyle
from data_plane.server.endpoints import bodies
from data_plane.server.endpoints.calls import Calls
from data_plane.server.endpoints.health import model_readiness
from data_plane.server.routing import Route


class V1Endpoints:
    """Serve all models of the server."""

    def __init__(self, models: Models, calls: Calls, style: EventStyle) -> None:
        self._models = models
        self._calls = calls
        self._style = style

    def routes(self) -> tuple[Route, ...]:
        """Return every method and path of the protocol."""
        return (
            Route("GET", "/v1/models", self.list_models),
            Route("GET", "/v1/models/{model}", self.model_status),
            Route("POST", "/v1/models/{model}:predict", self.predict, self._model),
            Route("POST", "/v1/models/{model}:explain", self.explain, self._model),
        )

    def predict(self, request: Request) -> Awaitable[Response]:
        return self._call(request, explain=False)

    def explain(self, request: Request) -> Awaitable[Response]:
        return self._call(request, explain=True)

    async def list_models(self, _: Request) -> Response:
        return json_response({"models": self._models.names})

    async def model_status(self, request: Request) -> Response:
        return model_readiness(self._models, request.params["model"])

    def _model(self, params: Mapping[str, str]) -> ServableModel:
        return self._models.get(params["model"])

    async def _call(self, request: Request, *, explain: bool) -> Response:
        model = self._model(request.params)
        call = self._calls.begin(request)
        decoded, event = await off_loop(json_text.weight(request.body), bodies.read, request, v1.decode_request)
        response = await (model.explain(decoded, call) if explain else model.predict(decoded, call))
        if event is None:
            return response
        return await off_loop(len(response.body), cloudevents.wrap, event, response, model.name, style=self._style)
