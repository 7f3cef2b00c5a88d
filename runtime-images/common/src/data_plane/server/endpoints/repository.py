"""The repository extension of the v2 protocol: list, load and unload models."""

from __future__ import annotations

import msgspec

from data_plane.errors import InvalidRequest
from data_plane.messages import Request, Response, json_response
from data_plane.model import Models
from data_plane.server.routing import Route


class _IndexDocument(msgspec.Struct):
    ready: bool = False  # only models that can serve requests


_index_document = msgspec.json.Decoder(_IndexDocument)


class RepositoryEndpoints:
    """Serve all models of the server; the runtime loads and unloads them."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def routes(self) -> tuple[Route, ...]:
        return (
            Route("POST", "/v2/repository/index", self.index),
            Route("POST", "/v2/repository/models/{model}/load", self.load),
            Route("POST", "/v2/repository/models/{model}/unload", self.unload),
        )

    async def index(self, request: Request) -> Response:
        document = _decode(request.body)
        return json_response(
            [
                {"name": entry.name, "version": entry.version, "state": entry.state, "reason": entry.reason}
                for entry in self._models.index()
                if entry.state == "READY" or not document.ready
            ]
        )

    async def load(self, request: Request) -> Response:
        await self._models.load(request.params["model"], _peer(request))
        return json_response({"name": request.params["model"], "load": True})

    async def unload(self, request: Request) -> Response:
        await self._models.unload(request.params["model"], _peer(request))
        return json_response({"name": request.params["model"], "unload": True})


def _peer(request: Request) -> str:
    return request.client[0] if request.client else ""


def _decode(body: bytes) -> _IndexDocument:
    """Decode a body, which may be empty; raises InvalidRequest."""
    try:
        return _index_document.decode(body) if body else _IndexDocument()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(
            f'The request body cannot be read: {error}; send {{"ready": true}}, or nothing.'
        ) from error
