"""The HTTP surface of the pod: the v1 protocol, health and metrics."""

from __future__ import annotations

from collections.abc import Sequence

from torchserve_adapter.client import TorchServeClient
from torchserve_adapter.readiness import Readiness
from transformer_sdk.errors import ModelNotFound
from transformer_sdk.messages import Request, Response, json_response
from transformer_sdk.protocol import v1
from transformer_sdk.server.metrics import ServerMetrics
from transformer_sdk.server.routing import Route

_METRICS_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


class Endpoints:
    """What the door offers for `models`; where there is one, `service_name` is another name for it."""

    def __init__(
        self,
        models: Sequence[str],
        service_name: str | None,
        readiness: Readiness,
        client: TorchServeClient,
        metrics: ServerMetrics,
    ) -> None:
        self._models = tuple(models)
        # People who serve one model know it by the service's name.
        self._aliases = {service_name: self._models[0]} if service_name and len(self._models) == 1 else {}
        self._readiness = readiness
        self._client = client
        self._metrics = metrics

    def routes(self) -> tuple[Route, ...]:
        """Every method and path that is served."""
        return (
            Route("GET", "/", self.alive),
            Route("GET", "/v1/models", self.list_models),
            Route("GET", "/v1/models/{model}", self.model_status),
            Route("POST", "/v1/models/{model}:predict", self.predict),
            Route("GET", "/v2/health/live", self.live),
            Route("GET", "/v2/health/ready", self.ready),
            Route("GET", "/metrics", self.metrics),
        )

    async def predict(self, request: Request) -> Response:
        model = self._resolve(request.params["model"])
        v1.decode_request(request.body)
        self._readiness.require(model)
        return await self._client.predict(model, request.body, request.headers)

    async def list_models(self, _: Request) -> Response:
        return json_response({"models": self._models})

    async def model_status(self, request: Request) -> Response:
        model = self._resolve(request.params["model"])
        ready = self._readiness.is_ready(model)
        return json_response({"name": model, "ready": ready}, 200 if ready else 503)

    async def alive(self, _: Request) -> Response:
        return json_response({"status": "alive"})

    async def live(self, _: Request) -> Response:
        return json_response({"live": True})

    async def ready(self, _: Request) -> Response:
        if self._readiness.ready:
            return json_response({"ready": True})
        if self._readiness.draining:
            return json_response({"ready": False, "reason": "the server is shutting down"}, 503)
        return json_response({"ready": False, "models": dict(self._readiness.reasons)}, 503)

    async def metrics(self, _: Request) -> Response:
        body = self._metrics.exposition() + await self._client.metrics()
        return Response(body, content_type=_METRICS_TYPE)

    def _resolve(self, name: str) -> str:
        if name in self._models:
            return name
        if name in self._aliases:
            return self._aliases[name]
        raise ModelNotFound(name, self._models)
