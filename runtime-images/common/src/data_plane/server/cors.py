"""CORS: the headers by which a browser lets pages of other origins send requests and read the responses."""

from __future__ import annotations

from data_plane.errors import ServingError
from data_plane.messages import Headers, Response
from data_plane.payload_logger.logger import PayloadLogger
from data_plane.server.app import App, Message, Receive, Send, ending_unread
from data_plane.server.budget import ByteBudget
from data_plane.server.metrics import ServerMetrics
from data_plane.server.routing import Router


class CorsApp(App):
    """Adds the headers `cors` to every response, unless a handler has set them, and responds to OPTIONS."""

    def __init__(
        self,
        router: Router,
        metrics: ServerMetrics,
        max_request_size: int,
        *,
        cors: Headers,
        budget: ByteBudget | None = None,
        payloads: PayloadLogger | None = None,
    ) -> None:
        super().__init__(router, metrics, max_request_size, budget, payloads=payloads)
        self._cors = cors

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        async def allow(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = self._with_cors(message["headers"])
            await send(message)

        if scope["method"] == "OPTIONS":
            headers = ((b"content-length", b"0"), *ending_unread(tuple(scope["headers"])))
            await allow({"type": "http.response.start", "status": 200, "headers": headers})
            await allow({"type": "http.response.body", "body": b""})
        else:
            await super().__call__(scope, receive, allow)

    def refuse(self, error: ServingError, headers: Headers) -> tuple[Response, Headers]:
        response, headers = super().refuse(error, headers)
        return response, self._with_cors(headers)

    def _with_cors(self, headers: Headers) -> Headers:
        there = {name for name, _ in headers}
        return (*headers, *(pair for pair in self._cors if pair[0] not in there))
