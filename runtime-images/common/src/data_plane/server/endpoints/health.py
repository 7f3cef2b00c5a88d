"""Liveness, readiness and metrics of the server."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable

from data_plane.limits import METRICS_PER_SECOND
from data_plane.messages import Request, Response, json_response
from data_plane.model import Models
from data_plane.server.metrics import ServerMetrics, without_clashes
from data_plane.server.routing import Route

log = logging.getLogger(__name__)

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
        self,
        models: Models,
        metrics: ServerMetrics,
        more_metrics: Callable[[], Awaitable[bytes]] = _nothing,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._models = models
        self._metrics = metrics
        self._more_metrics = more_metrics
        self._clock = clock
        self._readings = float(METRICS_PER_SECOND)  # that are left at the time `_counted`
        self._counted = clock()
        self._last = b""
        self._left_out = {"process_resident_memory_bytes"}  # prometheus_client's: of the process without its workers

    def routes(self) -> tuple[Route, ...]:
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
        if reason := self._models.reason:
            return json_response({"ready": False, "reason": reason}, 503)
        return json_response({"ready": False, "models": self._models.reasons}, 503)

    async def metrics(self, _: Request) -> Response:
        if self._may_read() or not self._last:
            own, more = self._metrics.exposition(), await self._more_metrics()
            more, clashes = without_clashes(more, own)
            for name in clashes - self._left_out:
                log.warning(
                    "metric %s of the model is left out: the server has one of its own; give it another name", name
                )
            self._left_out |= clashes
            self._last = own + more
        return Response(self._last, content_type=_METRICS_TYPE)

    def _may_read(self) -> bool:
        """Count a reading of the metrics, which takes milliseconds in which nothing else is served."""
        now = self._clock()
        left = self._readings + (now - self._counted) * METRICS_PER_SECOND
        self._readings, self._counted = min(left, METRICS_PER_SECOND), now
        if self._readings < 1:
            return False
        self._readings -= 1
        return True
