"""The only sockets to TorchServe: its management, its metrics, and the ways to the workers of its models."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import orjson

from data_plane.batching.sequences import SequenceLimits
from data_plane.client.address import Address
from data_plane.client.pool import Limits, Pool
from data_plane.errors import ServingError
from data_plane.messages import Response
from torchserve_adapter.errors import broken_connections
from torchserve_adapter.transport import VersionTransport

_NOT_FOUND = 404
_PAGE = 100  # the most models that TorchServe lists at once
_KEPT = Limits(idle_s=600.0)  # a request after a pause need not connect anew; one that was closed is not used
_SHORT_S = 5.0
_IDLE_SHARE = 0.9
_LONG_S = 86400.0  # of what loads a model, and ends it by a limit of its own


@dataclass(frozen=True)
class Version:
    """One version of a model, as TorchServe describes it."""

    version: str
    archive: str
    workers: int  # those that are ready
    max_workers: int
    batch_size: int
    response_timeout_s: int
    startup_timeout_s: int
    continuous: bool = False
    sequences: SequenceLimits | None = None  # of a handler that keeps state between requests


class TorchServeClient:
    """TorchServe's three listeners, found by the addresses in its effective configuration."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        sequence_header = properties.get("ts_header_key_sequence_id", "").strip() or "ts_request_sequence_id"
        self._sequence_header = sequence_header.encode("latin-1")
        self._addresses = [
            Address.parse(properties[f"{name}_address"]) for name in ("inference", "management", "metrics")
        ]

    async def __aenter__(self) -> Self:
        self._inference, self._management, self._metrics = (Pool(one, limits=_KEPT) for one in self._addresses)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pool in (self._inference, self._management, self._metrics):
            pool.close()

    def transport(self, model: str, version: Version, on_answer: Callable[[], None]) -> VersionTransport:
        """The way to this version's workers; `on_answer` is called whenever one has answered."""
        path = f"/predictions/{quote(model, safe='')}/{quote(version.version, safe='')}"
        return VersionTransport(
            self._inference, path, model, version.response_timeout_s, version.startup_timeout_s, on_answer,
            continuous=version.continuous,
            sequence_header=self._sequence_header if version.sequences else None,
        )  # fmt: skip

    async def describe(self, model: str) -> tuple[Version, ...] | None:
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
        """Every model that TorchServe knows; None while it does not answer."""
        names: list[str] = []
        while True:
            page = await self._get(f"/models?limit={_PAGE}&next_page_token={len(names)}")
            if page is None:
                return None
            names += [one["modelName"] for one in page["models"]]
            if "nextPageToken" not in page:
                return tuple(names)

    async def metrics(self) -> bytes:
        """TorchServe's metrics; nothing while it does not answer."""
        try:
            response = await self._metrics.request("GET", "/metrics", (), b"", _SHORT_S)
        except ServingError:
            return b""
        return response.body if response.status == 200 else b""

    async def manage(self, method: str, path_and_query: str) -> Response:
        """TorchServe's response to a request of its management API, whatever it is."""
        with broken_connections():
            response = await self._management.request(method, path_and_query, (), b"", _LONG_S)
        return Response(response.body, response.status, response.header(b"content-type") or b"application/octet-stream")

    async def _get(self, path: str) -> Any:
        """JSON of the management API; an object for what TorchServe refuses, None while it does not answer."""
        try:
            response = await self._management.request("GET", path, (), b"", _SHORT_S)
        except ServingError:
            return None
        return orjson.loads(response.body)


def _version(described: Mapping[str, Any]) -> Version:
    return Version(
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
    """TorchServe's, but for the time that a sequence may be idle. Were TorchServe's own over first, its next request
    could go to another worker, or, at that very moment, be forgotten."""
    timeout_ms = described["sequenceTimeoutMSec"]
    return SequenceLimits(
        max_sequences=described["maxNumSequence"],
        max_idle_s=_IDLE_SHARE * described["sequenceMaxIdleMSec"] / 1000,
        timeout_s=timeout_ms / 1000 if timeout_ms else math.inf,
        queue_size=described["maxSequenceJobQueueSize"],
    )
