"""TorchServe's own inference API: bodies of any kind, straight to the handler."""

from __future__ import annotations

from transformer_sdk.messages import Request, Response, json_response
from transformer_sdk.model import Models
from transformer_sdk.server.endpoints.calls import Calls
from transformer_sdk.server.routing import Route


class TorchServeEndpoints:
    """Over all models of the server."""

    def __init__(self, models: Models, calls: Calls) -> None:
        self._models = models
        self._calls = calls

    def routes(self) -> tuple[Route, ...]:
        """Every method and path of the API that is for clients."""
        predictions = [
            Route(method, path, self.predict) for path in _paths("predictions") for method in ("POST", "PUT", "GET")
        ]
        explanations = [
            Route(method, path, self.explain) for path in _paths("explanations") for method in ("POST", "PUT", "GET")
        ]
        return (Route("GET", "/ping", self.ping), *predictions, *explanations)

    async def predict(self, request: Request) -> Response:
        return await self._ask(request, explain=False)

    async def explain(self, request: Request) -> Response:
        return await self._ask(request, explain=True)

    async def ping(self, _: Request) -> Response:
        if self._models.ready:
            return json_response({"status": "Healthy"})
        return json_response({"status": "Unhealthy"}, 500)

    async def _ask(self, request: Request, *, explain: bool) -> Response:
        model = self._models.get(request.params["model"], request.params.get("version"))
        call = self._calls.begin(request)
        content_type = (request.header(b"content-type") or b"").decode("latin-1")
        path = request.params.get("path", "")
        response = await model.raw(request.body, content_type, path, call, explain=explain)
        return self._calls.finish(request, call, response)


def _paths(kind: str) -> tuple[str, ...]:
    """What comes after the version is the handler's to understand."""
    return f"/{kind}/{{model}}", f"/{kind}/{{model}}/{{version}}", f"/{kind}/{{model}}/{{version}}/{{path*}}"
