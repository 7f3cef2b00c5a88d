"""The ASGI application: reads the body, finds the endpoint, and is the one border where errors become answers.

Bare ASGI on purpose: a web framework costs more per request than everything else here together.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

from transformer_sdk.errors import BodyTooLarge, MethodNotAllowed, ServingError
from transformer_sdk.server.messages import Headers, Request, Response, json_response
from transformer_sdk.server.metrics import ServerMetrics
from transformer_sdk.server.routing import Router

log = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

REQUEST_ID = b"x-request-id"
_UNROUTED = "none"
# Of a body that is too large this much is read and thrown away, so that the client gets to read its answer:
# closing a connection with unread data resets it.
_DISCARDED_BYTES = 64 * 1024 * 1024


class ClientDisconnected(Exception):
    """The client went away before its body was read; nobody is left to answer."""


class App:
    """An ASGI application that answers every request. `max_request_size` is in bytes."""

    def __init__(self, router: Router, metrics: ServerMetrics, max_request_size: int) -> None:
        self._router = router
        self._metrics = metrics
        self._max_request_size = max_request_size

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        headers: Headers = tuple(scope["headers"])
        request_id = _header(headers, REQUEST_ID) or uuid.uuid4().hex.encode()
        route = _UNROUTED
        try:
            matched, params = self._router.match(scope["method"], scope["path"])
            route = matched.template
            body = await _read_body(headers, receive, self._max_request_size)
            request = Request(scope["method"], scope["path"], params, headers, body, request_id.decode("latin-1"))
            response = await matched.endpoint(request)
        except ClientDisconnected:
            return
        except Exception as error:  # noqa: BLE001 - the border: whatever it is, the client gets an answer
            response = _error_response(error, scope, request_id)
        self._metrics.observe(scope["method"], route, response.status, time.perf_counter() - started)
        await _send_response(send, response, request_id)


def _error_response(error: Exception, scope: Message, request_id: bytes) -> Response:
    if not isinstance(error, ServingError):
        log.error("%s %s: unexpected error", scope["method"], scope["path"], exc_info=error)
        return json_response({"error": f"{type(error).__name__} : {error}"}, 500)
    log.log(
        logging.WARNING if error.status >= 500 else logging.INFO,
        "%s %s answered %d: %s (request %s)",
        scope["method"], scope["path"], error.status, error.message, request_id.decode("latin-1"),
    )  # fmt: skip
    return json_response({"error": error.message}, error.status, _error_headers(error))


def _error_headers(error: ServingError) -> Headers:
    match error:
        case BodyTooLarge():
            # The rest of the body is still on its way: this connection cannot carry another request.
            return ((b"connection", b"close"),)
        case MethodNotAllowed():
            return ((b"allow", error.allowed.encode()),)
    return ((b"retry-after", str(error.retry_after_s).encode()),) if error.retry_after_s else ()


async def _read_body(headers: Headers, receive: Receive, limit: int) -> bytes:
    if int(_header(headers, b"content-length") or 0) > limit and _header(headers, b"expect"):
        raise BodyTooLarge(limit)  # the client asks before it sends
    chunks: list[bytes] = []
    size = 0
    async for chunk in _chunks(receive):
        size += len(chunk)
        if size <= limit:
            chunks.append(chunk)
        elif size > limit + _DISCARDED_BYTES:
            break
    if size > limit:
        raise BodyTooLarge(limit)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def _chunks(receive: Receive) -> AsyncIterator[bytes]:
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
        more = message.get("more_body", False)
        yield message.get("body", b"")


async def _send_response(send: Send, response: Response, request_id: bytes) -> None:
    headers = (
        (b"content-type", response.content_type),
        (b"content-length", str(len(response.body)).encode()),
        (REQUEST_ID, request_id),
        *response.headers,
    )
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": response.body})


def _header(headers: Headers, name: bytes) -> bytes | None:
    for key, value in headers:
        if key == name:
            return value
    return None
