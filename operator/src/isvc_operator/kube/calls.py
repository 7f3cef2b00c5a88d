"""Who is told of each HTTP request to the API server, those of the watches included: its verb, result and duration."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from isvc_operator.telemetry.tracing import NoTracer, Tracer

NO_RESPONSE: Final = "error"
_COLLECTION: Final = re.compile(r"/(?:api/v1|apis/[^/]+/[^/]+)(?:/namespaces/[^/]+)?/([^/]+)")
_WRITES: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def verb_of(method: str, path: str, query: Mapping[str, str]) -> str:
    """Return Kubernetes' verb of a request, as audit logs have it; "get" also for what is not a resource."""
    if method in _WRITES:
        return _WRITES[method]
    if query.get("watch") == "true":
        return "watch"
    return "list" if _COLLECTION.fullmatch(path) else "get"


def resource_of(path: str) -> str:
    """Return the plural name of the kind that a request is about; none for what is not a resource."""
    found = _COLLECTION.match(path)
    return found[1] if found else ""


@dataclass(frozen=True)
class ApiCalls:
    """``requested`` gets the verb of a request, its HTTP status ("error" without a response), and the seconds until the
    response's head. ``refused`` gets the verb and the resource of one that was refused with 401 or 403, and who has
    refused it. ``tracer`` gets a span for each request. ``clock`` counts seconds.
    """

    requested: Callable[[str, str, float], None] = lambda _verb, _code, _seconds: None
    refused: Callable[[str, str, str], None] = lambda _verb, _resource, _by: None
    tracer: Tracer = field(default_factory=NoTracer)
    clock: Callable[[], float] = time.monotonic

    @contextmanager
    def sending(self, method: str, path: str, query: Mapping[str, str]) -> Iterator[Callable[[int], None]]:
        """Tell of a request that is sent in the block, which calls what it gets with the status of the response."""
        verb, code, started = verb_of(method, path, query), NO_RESPONSE, self.clock()
        with self.tracer.span(f"{verb} {path}", {"http.request.method": method, "url.path": path}) as span:

            def responded(status: int) -> None:
                nonlocal code
                code = str(status)
                if span is not None:
                    span.set_attribute("http.response.status_code", status)

            try:
                yield responded
            finally:
                self.requested(verb, code, self.clock() - started)
