"""Endpoints of the v1 and v2 protocols for models with hooks; bodies are passed to the hooks undecoded."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from data_plane import __version__
from data_plane.errors import InvalidRequest, ServingError
from data_plane.messages import Request, Response, StreamingResponse, json_response
from data_plane.model import Call
from data_plane.off_loop import off_loop
from data_plane.protocol import cloudevents
from data_plane.protocol.cloudevents import EventStyle
from data_plane.protocol.v2.document import json_length
from data_plane.server.endpoints.bodies import refuse_encoded
from data_plane.server.endpoints.server_metadata import EXTENSIONS
from data_plane.server.routing import Route
from transformer_sdk.kserve.model import InferenceVerb
from transformer_sdk.kserve.serving.exchange import Exchange
from transformer_sdk.kserve.serving.repository import HookedModels
from transformer_sdk.kserve.serving.served import ServedModel


class HookEndpoints:
    def __init__(self, models: HookedModels, timeout_s: float, style: EventStyle) -> None:
        self._models = models
        self._timeout_s = timeout_s
        self._style = style

    def routes(self) -> tuple[Route, ...]:
        of_versions = ("", "/versions/{version}")
        return (
            Route("GET", "/v1/models", self.list_models),
            Route("GET", "/v1/models/{model}", self.ready),
            Route("POST", "/v1/models/{model}:predict", partial(self._call, "v1"), self._served),
            Route(
                "POST",
                "/v1/models/{model}:explain",
                partial(self._call, "v1", verb=InferenceVerb.EXPLAIN),
                self._served,
            ),
            Route("GET", "/v2", self.server),
            Route("GET", "/v2/health/ready", self.server_ready),
            Route("GET", "/v2/models", self.list_models),
            *(Route("GET", f"/v2/models/{{model}}{version}", self.metadata) for version in of_versions),
            *(Route("GET", f"/v2/models/{{model}}{version}/ready", self.ready) for version in of_versions),
            *(
                Route("POST", f"/v2/models/{{model}}{version}/infer", partial(self._call, "v2"), self._served)
                for version in of_versions
            ),
        )

    async def list_models(self, _: Request) -> Response:
        return json_response({"models": self._models.names})

    async def server(self, _: Request) -> Response:
        return json_response({"name": "isvc-operator", "version": __version__, "extensions": EXTENSIONS})

    async def server_ready(self, _: Request) -> Response:
        for name in self._models.names:
            await self._models.served(name).refresh(self._models)
        if self._models.ready:
            return json_response({"ready": True})
        if reason := self._models.reason:
            return json_response({"ready": False, "reason": reason}, 503)
        error = "Server is not ready: " + " ".join(f"Model {name} {why}." for name, why in self._models.reasons.items())
        return json_response({"error": error, "ready": False, "models": self._models.reasons}, 503)

    async def ready(self, request: Request) -> Response:
        name = self._models.resolve(request.params["model"])
        await self._models.served(name, request.params.get("version")).refresh(self._models)
        health = self._models.health(name)
        if health is None or health.is_ready:
            return json_response({"name": name, "ready": True})
        error = f"Model with name {name} is not ready: it {health.reason}."
        return json_response({"error": error, "name": name, "ready": False, "reason": health.reason}, 503)

    async def metadata(self, request: Request) -> Response:
        name = self._models.resolve(request.params["model"])
        served, versions = self._models.served(name, request.params.get("version")), self._models.versions(name)
        inputs, outputs = await served.types()
        return json_response({"name": name, "versions": versions, "platform": "", "inputs": inputs, "outputs": outputs})

    async def _call(
        self, protocol: str, request: Request, verb: InferenceVerb = InferenceVerb.PREDICT
    ) -> Response | StreamingResponse:
        served = self._served(request.params)
        call = Call.begin(request, self._timeout_s)
        exchange = Exchange(served.name, protocol, call, request.body, verb, json_length(request.headers))
        weight = cloudevents.weight(request.headers, request.body)
        if event := await off_loop(weight, cloudevents.unwrap, request.headers, request.body):
            exchange.body, exchange.event = event.payload, event
        exchange.takes_pieces = event is None
        try:
            response = await served.respond(exchange)
        except ServingError as error:
            if error.status == InvalidRequest.status:
                refuse_encoded(request)
            raise
        if isinstance(response, StreamingResponse):
            return response
        if event is None:
            return response
        return await off_loop(len(response.body), cloudevents.wrap, event, response, served.name, style=self._style)

    def _served(self, params: Mapping[str, str]) -> ServedModel:
        return self._models.served(params["model"], params.get("version"))
