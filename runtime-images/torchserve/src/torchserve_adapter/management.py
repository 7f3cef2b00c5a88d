"""TorchServe's management API, which `enable_model_api=true` turns on: models are registered at run time.

The API listens on loopback only, and its requests pass through the adapter. The adapter forms the batches of a
registered model, so TorchServe must not wait for a full batch. Changes take effect at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import orjson

from data_plane.errors import InvalidRequest, UnknownModel, UpstreamError
from data_plane.messages import Request, Response
from data_plane.model_server.errors import ConfigurationError, ModelFailed
from data_plane.server.routing import Route
from model_archive.configuration import file_name
from torchserve_adapter.archive_settings import read_settings
from torchserve_adapter.batching import BatchRequirements
from torchserve_adapter.client import TorchServeClient
from torchserve_adapter.errors import COMPONENT, message_of
from torchserve_adapter.served import ServedVersions
from torchserve_adapter.watch import ModelWatch
from torchserve_compat.store.archives import read_archive, read_store
from torchserve_compat.store.settings import sequence_limits
from torchserve_compat.store.versions import newest

_METHODS = ("GET", "POST", "PUT", "DELETE", "OPTIONS")
_PATHS = ("/models", "/models/{model}", "/models/{model}/{version}", "/models/{model}/{version}/set-default")
_CONFLICT = 409  # the model is already registered


@dataclass(frozen=True)
class ManagementEndpoints:
    """Forwards the requests of TorchServe's own API."""

    repository: StoreRepository

    def routes(self) -> tuple[Route, ...]:
        """Return routes for all methods and paths; TorchServe refuses those that it does not have."""
        return (
            Route("POST", "/models", self.register),
            *(
                Route(method, path, self.forward)
                for path in _PATHS
                for method in _METHODS
                if (method, path) != ("POST", "/models")
            ),
        )

    async def forward(self, request: Request) -> Response:
        query = f"?{request.query.decode('latin-1')}" if request.query else ""
        response = await self.repository.client.manage(request.method, quote(request.path) + query)
        if request.method != "GET":
            await self._check_models()
        return response

    async def register(self, request: Request) -> Response:
        parameters = {**_document(request), **dict(parse_qsl(request.query.decode("latin-1")))}
        parameters |= await self._batching(parameters)
        response = await self.repository.client.manage("POST", f"/models?{urlencode(parameters)}")
        await self._check_models()
        return response

    async def _batching(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters that make TorchServe report the batch size, but not wait for a full batch."""
        url = str(parameters.get("url", ""))
        archive = self.repository.store / file_name(url)
        handler = (await asyncio.to_thread(read_archive, archive)).handler
        with _as_invalid_request():
            settings = await asyncio.to_thread(read_settings, archive)
            limits, batch_size = self.repository.requirements.of_registration(
                parameters.get("batch_size"), settings, handler
            )
            sequence_limits(archive.name, settings, batch_size=1, workers=1)
        self.repository.served.expect(url, limits)
        return {"batch_size": batch_size, "max_batch_delay": 0}

    async def _check_models(self) -> None:
        with contextlib.suppress(ModelFailed):  # the watch reports it and ends the adapter
            await self.repository.watch.check()


@dataclass(frozen=True)
class StoreRepository:
    """Loads and unloads the archives of the model store, for the v2 protocol."""

    client: TorchServeClient
    watch: ModelWatch
    _: KW_ONLY
    served: ServedVersions
    requirements: BatchRequirements
    store: Path
    workers: int

    async def load(self, name: str) -> None:
        """Return when the model is ready.

        Raises UnknownModel, InvalidRequest for an archive that is not served, and UpstreamError for TorchServe's error.
        """
        archives = newest(await asyncio.to_thread(read_store, self.store))
        if (archive := archives.get(name)) is None:
            raise UnknownModel(name, archives)
        with _as_invalid_request():
            settings = await asyncio.to_thread(read_settings, self.store / archive.file)
        requirements = replace(
            self.requirements, archives={archive.file: settings}, handlers={archive.file: archive.handler}
        )
        with _as_invalid_request():
            limits = requirements.limits(name, archive.model_version, archive.file)
            batch_size = requirements.stated_batch_size(name, archive.model_version, archive.file)
            sequence_limits(archive.file, settings, batch_size=1, workers=1)
        if self.watch.has_given_up(name):
            await self.unload(name)
        self.served.expect(archive.file, limits)
        parameters = {
            "url": archive.file, "model_name": name, "initial_workers": self.workers, "synchronous": "true",
            "batch_size": batch_size, "max_batch_delay": 0,
        }  # fmt: skip
        _check(await self.client.manage("POST", f"/models?{urlencode(parameters)}"))
        await self.watch.check()

    async def unload(self, name: str) -> None:
        """Return when running requests are finished and the model is gone; raises as `load` does."""
        versions = await self.client.describe(name) or ()
        async with self.watch.retiring(name):
            # TorchServe unregisters the default version only as the last one.
            for one in reversed(versions):
                path = f"/models/{quote(name, safe='')}/{quote(one.version, safe='')}"
                _check(await self.client.manage("DELETE", path))
        await self.watch.check()


@contextlib.contextmanager
def _as_invalid_request() -> Iterator[None]:
    """Turn errors that end the adapter at its start into InvalidRequest."""
    try:
        yield
    except ConfigurationError as error:
        raise InvalidRequest(str(error)) from error


def _check(response: Response) -> None:
    if response.status >= 400 and response.status != _CONFLICT:
        raise UpstreamError(COMPONENT, response.status, f"{COMPONENT}: {message_of(response.body)}")


def _document(request: Request) -> Mapping[str, Any]:
    """Return the parameters in a JSON body, which TorchServe accepts as well."""
    if not (request.header(b"content-type") or b"").startswith(b"application/json"):
        return {}
    try:
        document = orjson.loads(request.body)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"The request body is not valid JSON: {error}.") from error
    if not isinstance(document, dict):
        raise InvalidRequest('The request body is not a JSON object like {"url": "model.mar"}.')
    return {name: str(value).lower() if isinstance(value, bool) else value for name, value in document.items()}
