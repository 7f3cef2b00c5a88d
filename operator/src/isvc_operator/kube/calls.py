"""Observes each HTTP request to the API server, those of the watches included: its verb, result and duration."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any, Final

import aiohttp

from isvc_operator.telemetry.tracing import NoTracer, Tracer

# Called with the verb, the HTTP status ("error" if there was no response), and the seconds until the response's head.
Requested = Callable[[str, str, float], None]

NO_RESPONSE: Final = "error"
_COLLECTION: Final = re.compile(r"/(?:api/v1|apis/[^/]+/[^/]+)(?:/namespaces/[^/]+)?/[^/]+")
_PATH: Final = re.compile(r"/apis?/.*")
_WRITES: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def verb_of(method: str, path: str, query: Mapping[str, str]) -> str:
    """Return Kubernetes' verb of a request, as audit logs have it; "get" also for what is no resource."""
    if method in _WRITES:
        return _WRITES[method]
    if query.get("watch") == "true":
        return "watch"
    return "list" if _COLLECTION.fullmatch(api_path(path)) else "get"


def api_path(path: str) -> str:
    """Return the path as the API server knows it, without that of a proxy before it."""
    found = _PATH.search(path)
    return found[0] if found else path


def observing(
    requested: Requested, clock: Callable[[], float], tracer: Tracer | None = None
) -> list[aiohttp.TraceConfig]:
    """Return what makes an aiohttp session report its requests, and trace them."""
    spans = tracer or NoTracer()

    async def started(_: object, context: SimpleNamespace, sent: aiohttp.TraceRequestStartParams) -> None:
        context.started = clock()
        context.verb = verb_of(sent.method, sent.url.path, sent.url.query)
        context.stack = ExitStack()
        attributes = {"http.request.method": sent.method, "url.path": sent.url.path}
        context.span = context.stack.enter_context(spans.span(f"{context.verb} {sent.url.path}", attributes))

    async def ended(_: object, context: SimpleNamespace, got: aiohttp.TraceRequestEndParams) -> None:
        if context.span is not None:
            context.span.set_attribute("http.response.status_code", got.response.status)
        finish(context, str(got.response.status))

    async def failed(_: object, context: SimpleNamespace, got: aiohttp.TraceRequestExceptionParams) -> None:
        if context.span is not None:
            context.span.record_exception(got.exception)
        finish(context, NO_RESPONSE)

    def finish(context: Any, code: str) -> None:
        context.stack.close()
        requested(context.verb, code, clock() - context.started)

    config = aiohttp.TraceConfig()
    config.on_request_start.append(started)
    config.on_request_end.append(ended)
    config.on_request_exception.append(failed)
    return [config]
