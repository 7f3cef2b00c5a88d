"""TorchServe's inference API: the handler receives bodies of any type as they are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from urllib.parse import parse_qs, parse_qsl

from data_plane.errors import InvalidRequest
from data_plane.limits import MAX_FORM_PARTS
from data_plane.messages import Endpoint, Request, Response, StreamingResponse, json_response
from data_plane.model import Call, Models, ServableModel
from data_plane.protocol.torchserve.requests import Fields, RawRequest
from data_plane.server.routing import Route

_METHODS = ("POST", "PUT", "GET", "DELETE", "PATCH")  # all are the same to TorchServe
_MANAGEMENT = re.compile(r"/models(/[^/]+(/[^/]+(/set-default)?)?)?/?")


class TorchServeEndpoints:
    def __init__(self, models: Models, timeout_s: float) -> None:
        self._models = models
        self._timeout_s = timeout_s

    def routes(self) -> tuple[Route, ...]:
        endpoints: tuple[tuple[str, Endpoint], ...] = (
            *((path, self.predict) for path in _paths("predictions")),
            ("/models/{model}/invoke", partial(self.predict, takes_query=True)),
            *((path, partial(self.predict, explain=True)) for path in _paths("explanations")),
            ("/invocations", self.invoke),
        )
        return (
            *(Route(method, "/ping", self.ping) for method in (*_METHODS, "OPTIONS")),
            *(
                Route(method, path, endpoint, self._model if "{model}" in path else _any_model)
                for path, endpoint in endpoints
                for method in _METHODS
            ),
        )

    def elsewhere(self, path: str) -> str:
        """Return where TorchServe's management API is for a path of it; empty for any other."""
        return self._models.management if _MANAGEMENT.fullmatch(path) else ""

    async def predict(
        self, request: Request, *, explain: bool = False, takes_query: bool = False
    ) -> Response | StreamingResponse:
        fields = _fields(request) if takes_query else ()
        return await self._predict(request, request.params["model"], explain=explain, fields=fields)

    async def invoke(self, request: Request) -> Response | StreamingResponse:
        """Serve SageMaker's path: a request does not name its model if the server has only one."""
        names = _names(request.query) or self._models.names
        if len(names) != 1:
            served = ", ".join(sorted(self._models.names))
            raise InvalidRequest(f"Name the model: /invocations?model_name=NAME. Models served here: {served}.")
        return await self._predict(request, names[0], fields=_fields(request))

    async def ping(self, _: Request) -> Response:
        if self._models.ready:
            return json_response({"status": "Healthy"})
        return json_response({"status": "Unhealthy"}, 500)

    def _model(self, params: Mapping[str, str]) -> ServableModel:
        return self._models.get(params["model"], params.get("version"))

    async def _predict(
        self, request: Request, name: str, *, explain: bool = False, fields: Fields = ()
    ) -> Response | StreamingResponse:
        model = self._models.get(name, request.params.get("version"))
        call = Call.begin(request, self._timeout_s)
        content_type = (request.header(b"content-type") or b"").decode("latin-1")
        path = request.params.get("path", "")
        return await model.raw(RawRequest(request.body, content_type, path, fields=fields, explain=explain), call)


def _any_model(_: object) -> None:
    """Accept any request: its model is named in the query, which is read later."""


def _fields(request: Request) -> Fields:
    """Return the query's parameters, which the handler receives with the body; raises InvalidRequest."""
    try:
        pairs = parse_qsl(request.query.decode("latin-1"), keep_blank_values=True, max_num_fields=MAX_FORM_PARTS)
    except ValueError:
        raise InvalidRequest(f"The query has more than {MAX_FORM_PARTS} parameters; send them in the body.") from None
    return [(name, value.encode()) for name, value in pairs]


def _paths(kind: str) -> tuple[str, ...]:
    """Return the paths of a kind; the handler receives the part after the version."""
    return f"/{kind}/{{model}}", f"/{kind}/{{model}}/{{version}}", f"/{kind}/{{model}}/{{version}}/{{path*}}"


def _names(query: bytes) -> list[str]:
    try:
        return parse_qs(query.decode("latin-1"), max_num_fields=MAX_FORM_PARTS).get("model_name", [])
    except ValueError as error:
        raise InvalidRequest(f"The query cannot be read: {error}.") from error
