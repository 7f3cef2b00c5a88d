"""The ASGI application: read the body, call the endpoint, and turn errors into responses.

There is no web framework: it would cost more per request than everything else here together.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any

from msgspec import structs

from data_plane.errors import (
    BodyTooLarge,
    ClientGone,
    ServingError,
)
from data_plane.limits import LINGER, MAX_DISCARDED, SMALL_RESPONSE
from data_plane.log_lines import one_line
from data_plane.messages import (
    Headers,
    Request,
    Response,
    StreamingResponse,
    close_chunks,
    encodable,
    gathered,
    header,
    json_response,
    never,
    text_of,
)
from data_plane.payload_logger.exchange import LoggedExchange, OpenPayload
from data_plane.payload_logger.logger import PayloadLogger
from data_plane.server.budget import ByteBudget, Held
from data_plane.server.metrics import ServerMetrics
from data_plane.server.routing import Found, Router
from data_plane.server.timing import SERVER_TIMING, server_timing

log = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
Receive = Callable[[], Coroutine[Any, Any, Message]]
Send = Callable[[Message], Awaitable[None]]

REQUEST_ID = b"x-request-id"
# The scope's key for a function that returns whether the client has disconnected. ASGI itself has only `receive`, whose
# coroutine costs several times as much to poll.
IS_GONE = "isvc.is_gone"
_UNROUTED = "none"
_BODILESS = (204, 304)  # whatever came behind the head would be taken for the next response
_CLOSE: Headers = ((b"connection", b"close"),)


class _Incoming:
    """The messages of a request's body; `is_over` when all have come, or the client is gone."""

    __slots__ = ("_receive", "is_over")

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.is_over = False

    async def message(self) -> Message:
        message = await self._receive()
        self.is_over = not message.get("more_body", False)
        return message

    async def discarded(self) -> bool:
        """Read what is left of a rejected request: some clients send all of it before they read their response.

        Return whether it was read to its end.
        """
        left = MAX_DISCARDED
        with contextlib.suppress(asyncio.TimeoutError):
            while not self.is_over and left > 0:
                message = await asyncio.wait_for(self.message(), LINGER)
                left -= len(message.get("body", b""))
        return self.is_over


class App:
    """An ASGI application that sends a response to every request.

    A request's body has at most `max_request_size` bytes; `budget` is what all of them may hold together. Requests to
    models and their responses are logged by `payloads`. With `cors`, every response has these headers, unless a handler
    has set them, and OPTIONS gets them alone: by them a browser lets pages of other origins read the responses.
    """

    def __init__(
        self,
        router: Router,
        metrics: ServerMetrics,
        max_request_size: int,
        budget: ByteBudget | None = None,
        *,
        payloads: PayloadLogger | None = None,
        cors: Headers = (),
    ) -> None:
        self._router = router
        self._metrics = metrics
        self._in_flight = metrics.in_flight
        self._max_request_size = max_request_size
        self.budget = budget or ByteBudget()
        self.payloads = payloads
        self._cors = cors
        # One random number for all: one for each request costs more than finding its route.
        own = uuid.uuid4().hex[:16]
        self._ids = (f"{own}{number:016x}".encode() for number in itertools.count())

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if self._cors:
            send = self._allowing(send)
        if self._cors and scope["method"] == "OPTIONS":
            headers = ((b"content-length", b"0"), *_ending_unread(tuple(scope["headers"])))
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
        else:
            await self._respond(scope, receive, send)

    async def _respond(self, scope: Message, receive: Receive, send: Send) -> None:
        held = Held(self.budget)
        counts = scope["method"] == "POST"
        self._in_flight.requests += counts
        try:
            await self._serve(scope, receive, send, held)
        except RuntimeError:
            if not scope.get(IS_GONE, never)():
                raise
            await asyncio.sleep(0)  # in the loop's next turn uvicorn knows that the client has gone, and logs no error
        finally:
            self._in_flight.requests -= counts
            held.release()

    async def _serve(self, scope: Message, receive: Receive, send: Send, held: Held) -> None:
        started = time.perf_counter()
        headers: Headers = tuple(scope["headers"])
        request_id = header(headers, REQUEST_ID) or next(self._ids)
        route, timings = _UNROUTED, dict[str, float]()
        incoming = _Incoming(receive)
        exchange: LoggedExchange | None = None
        try:
            found = matched, params = self._router.match(scope["method"], scope["path"])
            route = matched.template
            body = await self._read_body(found, headers, incoming, held)
            request = Request(
                scope["method"], scope["path"], params, headers, body, _text(request_id),
                scope.get("query_string", b""), scope.get(IS_GONE, never), timings, scope.get("client"),
            )  # fmt: skip
            if self.payloads and matched.check:
                content_type = header(headers, b"content-type") or b""
                exchange = self.payloads.begin(headers, request.id, content_type, (body,))
            response = await matched.endpoint(request)
            if isinstance(response, StreamingResponse) and scope.get("http_version") == "1.0":
                response = await gathered(response)  # its chunks are HTTP/1.1's
            if matched.check and isinstance(response, Response) and len(response.body) > SMALL_RESPONSE:
                held.add(len(response.body))  # until it is written; the connection counts what it cannot send at once
        except ClientGone:
            return
        except Exception as error:  # noqa: BLE001 - every error becomes a response
            what = one_line(f"{scope['method']} {scope['path']}")
            response = _error_response(error, what, _text(request_id))
            if not incoming.is_over and _CLOSE[0] not in response.headers:
                response = structs.replace(response, headers=(*response.headers, *_ending_unread(headers)))
        if timing := server_timing(headers, timings):
            timed = (SERVER_TIMING.encode(), timing.encode())
            response = structs.replace(response, headers=(*response.headers, timed))
        self._metrics.observe(scope["method"], route, response.status, time.perf_counter() - started)
        if isinstance(response, StreamingResponse):
            logged = exchange.stream(response.status) if exchange else None
            try:
                await _stream(send, response, request_id, receive, logged=logged)
            except ServingError as error:
                # Its head has left: the server closes a connection whose response has no end, which tells the client.
                _log(error, one_line(f"{scope['method']} {scope['path']} broke off with"), _text(request_id))
            finally:
                if logged:
                    logged.end(response.content_type)
        else:
            all_headers = _whole_headers(response, request_id)
            await send({"type": "http.response.start", "status": response.status, "headers": all_headers})
            body = b"" if response.status in _BODILESS else response.body
            if not incoming.is_over and header(headers, b"expect") is None:
                await send({"type": "http.response.body", "body": body, "more_body": True})
                if not await incoming.discarded():
                    return  # the server closes a connection whose response has no end
                body = b""
            await send({"type": "http.response.body", "body": body})
            if exchange:
                exchange.respond(response.content_type, (response.body,), response.status)

    async def _read_body(self, found: Found, headers: Headers, incoming: _Incoming, held: Held) -> bytes:
        """Read the body. A request that its head alone rules out is refused first; the connection discards its body."""
        asks_first = header(headers, b"expect") is not None
        if asks_first:  # the client asks before it sends
            if _content_length(headers) > self._max_request_size:
                raise BodyTooLarge(self._max_request_size)
            await self._check(found, headers)
        message = await incoming.message()
        if message["type"] == "http.request" and not message.get("more_body", False):
            body: bytes = message.get("body", b"")  # nearly always: one message
            if len(body) > self._max_request_size:
                raise BodyTooLarge(self._max_request_size)
            if body or found[0].check:
                await held.take(len(body) or 1)  # its response may be large
            return body
        if not asks_first:
            await self._check(found, headers)
        if _content_length(headers) > self._max_request_size:
            raise BodyTooLarge(self._max_request_size)
        return await self._gather(message, incoming, held)

    async def _check(self, found: Found, headers: Headers) -> None:
        route, params = found
        if route.check:
            route.check(params)
        await self.budget.make_room(_content_length(headers))

    async def _gather(self, message: Message, incoming: _Incoming, held: Held) -> bytes:
        body = bytearray()
        while message["type"] != "http.disconnect":
            chunk = message.get("body", b"")
            if len(body) + len(chunk) > self._max_request_size:
                held.release()
                raise BodyTooLarge(self._max_request_size)
            await held.take(len(chunk))
            body += chunk
            if not message.get("more_body", False):
                return bytes(body)
            message = await incoming.message()
        raise ClientGone

    def refuse(self, error: ServingError, headers: Headers) -> tuple[Response, Headers]:
        """Return the response to a request that is not read to its end, with all its headers, the connection's last.

        `headers` are those that were read.
        """
        request_id = header(headers, REQUEST_ID) or next(self._ids)
        response = _error_response(error, "what is not a request", _text(request_id))
        if _CLOSE[0] not in response.headers:
            response = structs.replace(response, headers=(*response.headers, *_CLOSE))
        self._metrics.observe(_UNROUTED, _UNROUTED, response.status, 0)
        return response, self._with_cors(_whole_headers(response, request_id))

    def _allowing(self, send: Send) -> Send:
        async def allow(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = self._with_cors(message["headers"])
            await send(message)

        return allow

    def _with_cors(self, headers: Headers) -> Headers:
        there = {name for name, _ in headers}
        return (*headers, *(pair for pair in self._cors if pair[0] not in there))


def _ending_unread(headers: Headers) -> Headers:
    """Return the headers of a response that is sent before the request's body is read.

    A client that sent `Expect` may send the body or not, so what it sends next is ambiguous.
    """
    return _CLOSE if header(headers, b"expect") else ()


def _error_response(error: Exception, what: str, request_id: str) -> Response:
    if not isinstance(error, ServingError):
        log.error("%s: unexpected error", what, exc_info=error)
        return json_response(_document(f"{type(error).__name__} : {text_of(error)}", "server", request_id), 500)
    _log(error, f"{what} answered", request_id)
    document = {**error.details, **_document(error.message, error.component, request_id)}
    return json_response(document, error.status, _error_headers(error))


def _log(error: ServingError, what: str, request_id: str) -> None:
    level = logging.WARNING if error.status >= 500 else logging.INFO
    log.log(level, "%s %d: %s (request %s)", what, error.status, one_line(error.message), one_line(request_id))


def _text(request_id: bytes) -> str:
    """Decode a request id, which may be any bytes."""
    try:
        return request_id.decode()
    except UnicodeDecodeError:
        return request_id.decode("latin-1")


def _document(message: str, component: str, request_id: str) -> dict[str, str]:
    return {"error": encodable(message), "component": component, "request_id": request_id}


def _error_headers(error: ServingError) -> Headers:
    headers = list(error.headers)
    if error.retry_after_s:
        headers.append((b"retry-after", str(error.retry_after_s).encode()))
    return (*headers, *_CLOSE) if error.ends_connection else tuple(headers)


def _content_length(headers: Headers) -> int:
    """Python reads no number of any length; the server has seen that this one is zeros and less than 21 digits."""
    return int((header(headers, b"content-length") or b"0").strip()[-20:])


async def _stream(
    send: Send, response: StreamingResponse, request_id: bytes, receive: Receive, *, logged: OpenPayload | None
) -> None:
    """Send all chunks, or stop when the client disconnects, which may be while there is nothing to send.

    An error closes the connection, so that the client notices that the response is incomplete.
    """
    sending = asyncio.ensure_future(_send_pieces(send, response, request_id, logged))
    client = asyncio.ensure_future(receive())  # after the body, it ends only with the connection
    try:
        await asyncio.wait((sending, client), return_when=asyncio.FIRST_COMPLETED)
    finally:
        client.cancel()
        sending.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await sending


async def _send_pieces(send: Send, response: StreamingResponse, request_id: bytes, logged: OpenPayload | None) -> None:
    headers = ((b"content-type", response.content_type), (REQUEST_ID, request_id), *response.headers)
    try:
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        async for chunk in response.chunks:
            if logged:
                logged.add(chunk)
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    finally:
        await close_chunks(response)
    await send({"type": "http.response.body"})


def _whole_headers(response: Response, request_id: bytes) -> Headers:
    if response.status in _BODILESS:
        return ((REQUEST_ID, request_id), *response.headers)
    return (
        (b"content-type", response.content_type),
        (b"content-length", str(len(response.body)).encode()),
        (REQUEST_ID, request_id),
        *response.headers,
    )
