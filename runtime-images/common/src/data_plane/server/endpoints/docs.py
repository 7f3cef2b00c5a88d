"""What a server serves, for people: OpenAPI with the models' own inputs, and the same as a page without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any

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
        described = document("Models", self._routes, await self._inputs())
        # Beside this document: an ingress may serve both below another path.
        return json_response({**described, "servers": [{"url": "."}]})

    async def page(self, request: Request) -> Response:
        inputs = await self._inputs()
        ready = {name: self._models.is_ready(name) for name in inputs}
        # Where `isvc run` has one; what others send is no address of this machine.
        dashboard = (request.header(b"x-isvc-dashboard") or b"").decode("latin-1")
        shown = dashboard if dashboard.startswith("http://127.0.0.1:") else ""
        content = "".join(page(document("Models", self._routes, inputs), ready, shown))
        return Response(content.encode(), content_type=b"text/html; charset=utf-8", headers=_HEADERS)

    async def root(self, request: Request) -> Response | StreamingResponse:
        wants_page = b"text/html" in (request.header(b"accept") or b"")
        return await (self.page(request) if wants_page else self._alive(request))

    async def _inputs(self) -> dict[str, Inputs]:
        return {name: await self._inputs_of(name) for name in self._models.names}

    async def _inputs_of(self, name: str) -> Inputs:
        try:
            response = await self._metadata(Request("GET", "", {"model": name}, (), b"", ""))
        except ServingError:  # it is not ready
            return ()
        described = orjson.loads(response.body) if isinstance(response, Response) else {}
        inputs = [one for one in described.get("inputs") or () if _is_described(one)]
        if described.get("platform") == "pytorch_torchscript" and [-1] in [one["shape"] for one in inputs]:
            return [{"name": one["name"]} for one in inputs]  # a scripted file does not say what they hold
        return inputs


def _is_described(tensor: Any) -> bool:
    """Whether a user's model says of an input what the protocol asks."""
    shape = tensor.get("shape") if isinstance(tensor, dict) else None
    return isinstance(shape, list) and {*map(type, shape)} <= {int} and {"name", "datatype"} <= tensor.keys()


def page(openapi: Mapping[str, Any], ready: Mapping[str, bool], dashboard: str = "") -> Iterator[str]:
    """Yield the page. Its links are relative: an ingress may serve it below another path."""
    yield _HEAD
    if dashboard:
        yield f'<p><a href="{escape(dashboard)}">Dashboard</a></p>'
    for name, is_ready in ready.items():
        yield f"<p><b>{escape(name)}</b> is {'ready' if is_ready else 'not ready'}</p>"
    others = []
    for path, operations in openapi["paths"].items():
        title = f"<code>{' '.join(operations).upper()} {escape(path)}</code>"
        content = operations.get("post", {}).get("requestBody", {}).get("content", {}).get("application/json")
        if content is None:
            others.append(
                f'<li><a href="{escape(path[1:])}">{title}</a>'
                if "get" in operations and "{" not in path
                else f"<li>{title}"
            )
            continue
        (field,) = content["schema"]["required"]
        takes = escape(operations["post"]["requestBody"].get("description", ""))
        yield f'<h3>{title}</h3><p>Body: <code>{{"{field}": […]}}</code> {takes}</p>'
        if "example" in content:
            yield f"<pre>{escape(orjson.dumps(content['example']).decode())}</pre>"
    yield f"<h3>Other paths</h3><ul>{''.join(others)}</ul>"
