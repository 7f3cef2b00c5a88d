"""The v2 protocol (Open Inference Protocol) over HTTP."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from data_plane import __version__
from data_plane.messages import Request, Response, json_response
from data_plane.model import Call, Models, ServableModel
from data_plane.off_loop import off_loop
from data_plane.protocol import cloudevents
from data_plane.protocol.cloudevents import EventStyle
from data_plane.protocol.v2 import rest
from data_plane.protocol.v2.document import body_response, json_length
from data_plane.protocol.v2.requests import ModelMetadata, TensorRequest, TensorResponse
from data_plane.server.endpoints import bodies
from data_plane.server.endpoints.health import model_readiness
from data_plane.server.endpoints.server_metadata import EXTENSIONS
from data_plane.server.routing import Route

_OF_VERSION = ("", "/versions/{version}")


class V2Endpoints:
    def __init__(self, models: Models, timeout_s: float, style: EventStyle) -> None:
        self._models = models
        self._timeout_s = timeout_s
        self._style = style

    def routes(self) -> tuple[Route, ...]:
        """Return every method and path of the protocol except health."""
        per_model = (("GET", "", self.metadata), ("GET", "/ready", self.ready))
        return (
            Route("GET", "/v2", self.server),
            Route("GET", "/v2/models", self.list_models),
            *(
                Route(method, f"/v2/models/{{model}}{of_version}{path}", endpoint)
                for of_version in _OF_VERSION
                for method, path, endpoint in per_model
            ),
            *(
                Route("POST", f"/v2/models/{{model}}{of_version}/infer", self.infer, self._model)
                for of_version in _OF_VERSION
            ),
        )

    async def infer(self, request: Request) -> Response:
        model = self._model(request.params)
        call = Call.begin(request, self._timeout_s)
        length = json_length(request.headers)
        tensors, event = await off_loop(
            len(request.body), bodies.read, request, lambda body: rest.decode_request(body, length, model.name)
        )
        result = await model.infer(tensors, call)
        result = dataclasses.replace(result, id=tensors.id or request.id)
        response = await off_loop(result.size, _response, result, tensors)
        if event is None:
            return response
        return await off_loop(len(response.body), cloudevents.wrap, event, response, model.name, style=self._style)

    async def server(self, _: Request) -> Response:
        return json_response({"name": "isvc-operator", "version": __version__, "extensions": EXTENSIONS})

    async def list_models(self, _: Request) -> Response:
        return json_response({"models": self._models.names})

    async def metadata(self, request: Request) -> Response:
        name = self._models.resolve(request.params["model"])
        model = self._models.get(name, request.params.get("version"))
        described: ModelMetadata = dataclasses.replace(await model.metadata(), versions=self._models.versions(name))
        return json_response(dataclasses.asdict(described))

    def _model(self, params: Mapping[str, str]) -> ServableModel:
        return self._models.get(params["model"], params.get("version"))

    async def ready(self, request: Request) -> Response:
        return model_readiness(self._models, request.params["model"], request.params.get("version"))


def _response(result: TensorResponse, tensors: TensorRequest) -> Response:
    return body_response(*rest.encode_response(result, tensors))
