"""The OpenAPI document of all protocols, at TorchServe's `/api-description` and by `OPTIONS`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any
from urllib.parse import quote

from data_plane import __version__
from data_plane.messages import Request, Response, json_response
from data_plane.model import Models
from data_plane.protocol.v2.datatypes import DATATYPES
from data_plane.server.routing import Route

MODEL = "{model}"
_PREDICT, _INFER = "/v1/models/{model}:predict", "/v2/models/{model}/infer"
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

_TENSOR = {
    "type": "object",
    "required": ["name", "datatype", "shape"],
    "properties": {
        "name": {"type": "string"},
        "datatype": {"type": "string", "enum": list(DATATYPES)},
        "shape": {"type": "array", "items": {"type": "integer"}},
        "data": {"type": "array", "items": {}},
    },
}
_VALUES = {"BYTES": "", "BOOL": False}
_EXAMPLE_VALUES = 100  # that people read


Inputs = Sequence[Mapping[str, Any]]
"""The inputs of a model, each with its name, and its datatype and shape if they are known."""


class DescriptionEndpoints:
    def __init__(self, models: Models, routes: Iterable[Route]) -> None:
        self._models = models
        self._routes = tuple(routes)

    def routes(self) -> tuple[Route, ...]:
        """Return `/api-description`, and `OPTIONS` of the server and of each path that runs a model."""
        runs = {route.template for route in self._routes if route.method == "POST" and MODEL in route.template}
        return (
            *(Route(method, "/api-description", self.server) for method in ("GET", "POST", "PUT", "OPTIONS")),
            Route("OPTIONS", "/", self.server),
            *(Route("OPTIONS", template, self.model) for template in sorted(runs)),
        )

    async def server(self, _: Request) -> Response:
        return json_response(document("isvc-operator", self._routes))

    async def model(self, request: Request) -> Response:
        name = self._models.resolve(request.params["model"])
        of_model = (route for route in self._routes if MODEL in route.template)
        return json_response(document(name, of_model, {name: ()}))


def document(title: str, routes: Iterable[Route], models: Mapping[str, Inputs] | None = None) -> dict[str, Any]:
    """Return the document of the routes, with those of models for each of the ``models``."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        template = route.template.replace("*}", "}")
        for name, inputs in models.items() if models is not None and MODEL in template else ((MODEL, ()),):
            path = template if name == MODEL else template.replace(MODEL, quote(name, safe=""))
            paths.setdefault(path, {})[route.method.lower()] = _operation(route, path, inputs)
    return {"openapi": "3.0.1", "info": {"title": title, "version": __version__}, "paths": paths}


def _operation(route: Route, path: str, inputs: Inputs) -> dict[str, Any]:
    names = re.findall(r"\{(\w+)\}", path)
    described: dict[str, Any] = {
        "operationId": re.sub(r"\W+", "_", f"{route.method.lower()} {path}").strip("_"),
        "parameters": [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names],
        "responses": {"200": {"description": "OK"}, "default": _ERROR},
    }
    if route.template == _PREDICT:
        described["requestBody"] = _json("instances", {}, ())
    elif route.template == _INFER:
        described["requestBody"] = _json("inputs", _TENSOR, inputs)
    elif route.method in _BODIES:
        described["requestBody"] = {"content": {"*/*": {"schema": {}}}}
    return described


def _json(field: str, item: Mapping[str, Any], inputs: Inputs) -> dict[str, Any]:
    content: dict[str, Any] = {
        "schema": {"type": "object", "required": [field], "properties": {field: {"type": "array", "items": item}}}
    }
    are_known = all("shape" in one for one in inputs)
    shapes = [[max(size, 1) for size in one["shape"]] for one in inputs] if are_known else []
    if shapes and sum(map(prod, shapes)) <= _EXAMPLE_VALUES:
        content["example"] = {
            "inputs": [
                {**one, "shape": shape, "data": [_VALUES.get(one["datatype"], 0)] * prod(shape)}
                for one, shape in zip(inputs, shapes, strict=True)
            ]
        }
    takes = "; ".join(f"{one['name']}: {_type(one)}" for one in inputs)
    described = {"description": takes} if takes else {}
    return {**described, "required": True, "content": {"application/json": content}}


def _type(one: Mapping[str, Any]) -> str:
    return f"{one['datatype']} {list(one['shape'])}" if "shape" in one else "the model does not say what it holds"
