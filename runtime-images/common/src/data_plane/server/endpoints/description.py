"""The OpenAPI document of all protocols, at TorchServe's `/api-description` and by `OPTIONS`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from data_plane import __version__
from data_plane.messages import Request, Response, json_response
from data_plane.model import Models
from data_plane.server.routing import Route

_MODEL = "{model}"
_BODIES = ("POST", "PUT", "PATCH")
_ERROR = {
    "description": "The error",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["error", "component", "request_id"],
                "properties": {name: {"type": "string"} for name in ("error", "component", "request_id")},
            }
        }
    },
}


class DescriptionEndpoints:
    """Describe the routes of all protocols."""

    def __init__(self, models: Models, routes: Iterable[Route]) -> None:
        self._models = models
        self._routes = tuple(routes)

    def routes(self) -> tuple[Route, ...]:
        """Return `/api-description`, and `OPTIONS` of the server and of each path that runs a model."""
        runs = {route.template for route in self._routes if route.method == "POST" and _MODEL in route.template}
        return (
            *(Route(method, "/api-description", self.server) for method in ("GET", "POST", "PUT", "OPTIONS")),
            Route("OPTIONS", "/", self.server),
            *(Route("OPTIONS", template, self.model) for template in sorted(runs)),
        )

    async def server(self, _: Request) -> Response:
        return json_response(_document("isvc-operator", self._routes))

    async def model(self, request: Request) -> Response:
        name = self._models.resolve(request.params["model"])
        of_model = (route for route in self._routes if _MODEL in route.template)
        return json_response(_document(name, of_model, model=name))


def _document(title: str, routes: Iterable[Route], model: str | None = None) -> dict[str, Any]:
    """Return the document of the whole server, or of the paths of one model."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        template = route.template.replace("*}", "}")
        path = template if model is None else template.replace(_MODEL, quote(model, safe=""))
        paths.setdefault(path, {})[route.method.lower()] = _operation(route.method, path)
    return {"openapi": "3.0.1", "info": {"title": title, "version": __version__}, "paths": paths}


def _operation(method: str, path: str) -> dict[str, Any]:
    names = re.findall(r"\{(\w+)\}", path)
    described: dict[str, Any] = {
        "operationId": re.sub(r"\W+", "_", f"{method.lower()} {path}").strip("_"),
        "parameters": [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names],
        "responses": {"200": {"description": "OK"}, "default": _ERROR},
    }
    if method in _BODIES:
        described["requestBody"] = {"content": {"*/*": {"schema": {}}}}
    return described
