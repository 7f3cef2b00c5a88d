"""The only module that connects to TorchServe: to its management API, its metrics, and its inference API."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import orjson

from data_plane.batching.sequences import SequenceLimits
from data_plane.client.http import HttpClient
from data_plane.client.sessions import Limits
from data_plane.errors import ServingError
from data_plane.messages import Response
from torchserve_adapter.errors import broken_connections
from torchserve_adapter.transport import VersionTransport

_NOT_FOUND = 404
_PAGE = 100  # the most models on a page of TorchServe's list
_LIMITS = Limits(idle_s=600.0)  # keep connections for requests after a pause; closed ones are not reused
_SHORT_S = 5.0
_IDLE_SHARE = 0.9
_LONG_S = 86400.0  # for requests that load a model; TorchServe has its own limit for them


@dataclass(frozen=True)
class TorchServeVersion:
    """One version of a model, as TorchServe describes it."""

    version: str
    archive: str
    workers: int  # ready workers
    max_workers: int
    batch_size: int
    response_timeout_s: int
    startup_timeout_s: int
    continuous: bool = False
    sequences: SequenceLimits | None = None  # for a handler that keeps state between requests


class TorchServeClient:
    """A client for TorchServe's three listeners, whose addresses are in its effective configuration."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._sequence_header = properties.get("ts_header_key_sequence_id", "").strip() or "ts_request_sequence_id"
        self._http = HttpClient(limits=_LIMITS)
        self._inference = properties["inference_address"]
        self._management = properties["management_address"]
        self._metrics = properties["metrics_address"]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.close()

    def transport(self, model: str, version: TorchServeVersion, on_response: Callable[[], None]) -> VersionTransport:
        """Return a transport to this version's workers; `on_response` is called after each response."""
        path = f"/predictions/{quote(model, safe='')}/{quote(version.version, safe='')}"
        return VersionTransport(
            self._http, self._inference, path, model,
            response_timeout_s=version.response_timeout_s,
            startup_timeout_s=version.startup_timeout_s,
            on_response=on_response,
            continuous=version.continuous,
            sequence_header=self._sequence_header if version.sequences else None,
        )  # fmt: skip

    async def describe(self, model: str) -> tuple[TorchServeVersion, ...] | None:
        """Every version of a model, the default one first; none if TorchServe does not know it, None while it does not
        response."""
        described = await self._get(f"/models/{quote(model, safe='')}/all")
        if described is None:
            return None
        if not isinstance(described, list):
            return () if described.get("code") == _NOT_FOUND else None
        versions = [_version(one) for one in described]
        if len(versions) > 1 and (default := await self._get(f"/models/{quote(model, safe='')}")):
            versions.sort(key=lambda one: one.version != default[0]["modelVersion"])
        return tuple(versions)

    async def names(self) -> tuple[str, ...] | None:
        """Return the names of all models; None while TorchServe does not respond."""
        names: list[str] = []
        while True:
            page = await self._get(f"/models?limit={_PAGE}&next_page_token={len(names)}")
            if page is None:
                return None
            names += [one["modelName"] for one in page["models"]]
            if "nextPageToken" not in page:
                return tuple(names)

    async def metrics(self) -> bytes:
        """Return TorchServe's metrics; empty while it does not respond."""
        try:
            response = await self._http.send("GET", self._metrics, "/metrics", timeout_s=_SHORT_S)
        except ServingError:
            return b""
        return response.body if response.status == 200 else b""

    async def manage(self, method: str, path_and_query: str) -> Response:
        """Send a request to the management API and return the response, whatever its status."""
        with broken_connections():
            response = await self._http.send(method, self._management, path_and_query, timeout_s=_LONG_S)
        return Response(response.body, response.status, response.header(b"content-type") or b"application/octet-stream")

    async def _get(self, path: str) -> Any:
        """Return JSON from the management API: an object for an error, None while TorchServe does not respond."""
        try:
            response = await self._http.send("GET", self._management, path, timeout_s=_SHORT_S)
        except ServingError:
            return None
        return orjson.loads(response.body)


def _version(described: Mapping[str, Any]) -> TorchServeVersion:
    return TorchServeVersion(
        version=described["modelVersion"],
        archive=described["modelUrl"],
        workers=sum(worker["status"] == "READY" for worker in described["workers"]),
        max_workers=described["maxWorkers"],
        batch_size=described["batchSize"],
        response_timeout_s=described["responseTimeout"],
        startup_timeout_s=described["startupTimeout"],
        continuous=described.get("continuousBatching") is True,
        sequences=_sequences(described) if described.get("stateful") else None,
    )


def _sequences(described: Mapping[str, Any]) -> SequenceLimits:
    """Return TorchServe's limits with a shorter idle time.

    If TorchServe's idle time ended first, the next request of the sequence could go to another worker, or get lost.
    """
    timeout_ms = described["sequenceTimeoutMSec"]
    return SequenceLimits(
        max_sequences=described["maxNumSequence"],
        max_idle_s=_IDLE_SHARE * described["sequenceMaxIdleMSec"] / 1000,
        timeout_s=timeout_ms / 1000 if timeout_ms else math.inf,
        queue_size=described["maxSequenceJobQueueSize"],
    )
