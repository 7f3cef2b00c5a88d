"""What a server serves, for people: OpenAPI with the models' own inputs, and the same as a page without scripts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from html import escape
from typing import Any
from urllib.parse import quote

import orjson

from data_plane.errors import ServingError
from data_plane.messages import Endpoint, Request, Response, StreamingResponse, json_response
from data_plane.model import Models
from data_plane.server.endpoints.description import Inputs, document
from data_plane.server.routing import Route

_HEADERS = (
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'"),
    (b"vary", b"accept, x-isvc-dashboard"),
)
_HEAD = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Models</title><style>:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;
margin:2rem auto;padding:0 1rem}pre{overflow-x:auto}</style><h1>Models</h1>
<p><a href="openapi.json">OpenAPI</a> · <a href="metrics">metrics</a> · <a href="v2/health/ready">readiness</a></p>"""
_OF_HANDLER = "pytorch_torchserve"  # the platform of a model with a handler


class DocsEndpoints:
    """Describe the routes for each model; `metadata` is the endpoint of `/v2/models/{model}`, `alive` that of `/`."""

    def __init__(self, models: Models, routes: Iterable[Route], *, metadata: Endpoint, alive: Endpoint) -> None:
        self._models = models
        self._routes = tuple(routes)
        self._metadata = metadata
        self._alive = alive

    def routes(self) -> tuple[Route, ...]:
        """Return `/openapi.json`, `/docs`, and `/`, which is the page for browsers alone."""
        return tuple(
            Route("GET", path, endpoint)
            for path, endpoint in (("/openapi.json", self.openapi), ("/docs", self.page), ("/", self.root))
        )

    async def openapi(self, _: Request) -> Response:
        described = document("Models", self._routes, _inputs(await self._described()))
        # Beside this document: an ingress may serve both below another path.
        return json_response({**described, "servers": [{"url": "."}]})

    async def page(self, request: Request) -> Response:
        models = await self._described()
        ready = {name: self._models.is_ready(name) for name in models}
        handlers = {name for name, one in models.items() if one.get("platform") == _OF_HANDLER}
        # Where `isvc run` has one; what others send is not an address of this machine.
        dashboard = (request.header(b"x-isvc-dashboard") or b"").decode("latin-1")
        shown = dashboard if dashboard.startswith("http://127.0.0.1:") else ""
        openapi = document("Models", self._routes, _inputs(models))
        content = "".join(page(openapi, ready, shown, handlers=handlers))
        return Response(content.encode(), content_type=b"text/html; charset=utf-8", headers=_HEADERS)

    async def root(self, request: Request) -> Response | StreamingResponse:
        wants_page = b"text/html" in (request.header(b"accept") or b"")
        return await (self.page(request) if wants_page else self._alive(request))

    async def _described(self) -> dict[str, Mapping[str, Any]]:
        """Return the metadata of each model; empty for one that is not ready."""
        return {name: await self._metadata_of(name) for name in self._models.names}

    async def _metadata_of(self, name: str) -> Mapping[str, Any]:
        try:
            response = await self._metadata(Request("GET", "", {"model": name}, (), b"", ""))
        except ServingError:  # it is not ready
            return {}
        return orjson.loads(response.body) if isinstance(response, Response) else {}


def _inputs(models: Mapping[str, Mapping[str, Any]]) -> dict[str, Inputs]:
    return {name: _inputs_of(described) for name, described in models.items()}


def _inputs_of(described: Mapping[str, Any]) -> Inputs:
    inputs = [one for one in described.get("inputs") or () if _is_described(one)]
    if described.get("platform") == "pytorch_torchscript" and [-1] in [one["shape"] for one in inputs]:
        return [{"name": one["name"]} for one in inputs]  # a scripted file does not say what they hold
    return inputs


def _is_described(tensor: Any) -> bool:
    """Whether a user's model says of an input what the protocol asks."""
    shape = tensor.get("shape") if isinstance(tensor, dict) else None
    return isinstance(shape, list) and {*map(type, shape)} <= {int} and {"name", "datatype"} <= tensor.keys()


def page(
    openapi: Mapping[str, Any], ready: Mapping[str, bool], dashboard: str = "", *, handlers: Collection[str] = ()
) -> Iterator[str]:
    """Yield the page, whose first paths are those of models with `handlers`.

    Its links are relative: an ingress may serve it below another path.
    """
    yield _HEAD
    if dashboard:
        yield f'<p><a href="{escape(dashboard)}">Dashboard</a></p>'
    for name, is_ready in ready.items():
        yield f"<p><b>{escape(name)}</b> is {'ready' if is_ready else 'not ready'}</p>"
    others = []
    of_handlers = {f"/predictions/{quote(name, safe='')}" for name in handlers}
    for path, operations in sorted(openapi["paths"].items(), key=lambda one: one[0] not in of_handlers):
        methods = _methods(path, operations)
        title = f"<code>{methods} {escape(path)}</code>"
        if path in of_handlers:
            yield f"<h3>{title}</h3><p>Body: what the handler reads, such as a file or a text</p>"
            yield f"<pre>curl $URL{escape(path)} -T FILE\n"
            yield f"curl $URL{escape(path)} -H 'Content-Type: text/plain' -d 'a text'</pre>"
            continue
        content = operations.get("post", {}).get("requestBody", {}).get("content", {}).get("application/json")
        if content is None:
            others.append(
                f'<li><a href="{escape(path[1:])}">{title}</a>'
                if methods == "GET" and "{" not in path
                else f"<li>{title}"
            )
            continue
        (field,) = content["schema"]["required"]
        takes = escape(operations["post"]["requestBody"].get("description", ""))
        yield f'<h3>{title}</h3><p>Body: <code>{{"{field}": […]}}</code> {takes}</p>'
        if "example" in content:
            yield f"<pre>{escape(orjson.dumps(content['example']).decode())}</pre>"
    yield f"<h3>Other paths</h3><ul>{''.join(others)}</ul>"


def _methods(path: str, operations: Collection[str]) -> str:
    """Return the methods to use: on TorchServe's own paths all are the same."""
    if "patch" in operations:
        return "GET" if path == "/ping" else "POST"
    return " ".join(operations).upper()
