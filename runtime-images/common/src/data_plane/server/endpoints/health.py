"""Liveness, readiness and metrics of the server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from data_plane.messages import Request, Response, json_response
from data_plane.model import Models
from data_plane.server.metrics import ServerMetrics
from data_plane.server.routing import Route

_METRICS_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


async def _nothing() -> bytes:
    return b""


def model_readiness(models: Models, model: str, version: str | None = None) -> Response:
    """Return whether a model can serve requests, and if not, the reason; raises UnknownModel."""
    name = models.resolve(model)
    if models.is_ready(name, version):
        return json_response({"name": name, "ready": True})
    health = models.health(name)
    return json_response({"name": name, "ready": False, "reason": health.reason if health else ""}, 503)


class HealthEndpoints:
    """Serve health and metrics. `more_metrics` returns those of the models' processes, in Prometheus' text format."""

    def __init__(
        self, models: Models, metrics: ServerMetrics, more_metrics: Callable[[], Awaitable[bytes]] = _nothing
    ) -> None:
        self._models = models
        self._metrics = metrics
        self._more_metrics = more_metrics

    def routes(self) -> tuple[Route, ...]:
        """Return every method and path of health and metrics."""
        return (
            Route("GET", "/", self.alive),
            Route("GET", "/v2/health/live", self.live),
            Route("GET", "/v2/health/ready", self.ready),
            Route("GET", "/metrics", self.metrics),
        )

    async def alive(self, _: Request) -> Response:
        return json_response({"status": "alive"})

    async def live(self, _: Request) -> Response:
        return json_response({"live": True})

    async def ready(self, _: Request) -> Response:
        if self._models.ready:
            return json_response({"ready": True})
        if self._models.draining:
            return json_response({"ready": False, "reason": "the server is shutting down"}, 503)
        return json_response({"ready": False, "models": self._models.reasons}, 503)

    async def metrics(self, _: Request) -> Response:
        return Response(self._metrics.exposition() + await self._more_metrics(), content_type=_METRICS_TYPE)
