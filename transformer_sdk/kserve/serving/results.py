"""Convert results of hooks to responses; a result that cannot be sent is reported as the hook's error. Pure."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from data_plane.client.responses import UpstreamResponse
from data_plane.errors import InvalidRequest
from data_plane.messages import Headers, Response, StreamingResponse, text_of
from data_plane.protocol.v2.document import JSON_LENGTH
from transformer_sdk.kserve.protocol.documents import dump
from transformer_sdk.kserve.protocol.infer_type import InferResponse
from transformer_sdk.kserve.serving import headers as hook_headers
from transformer_sdk.kserve.serving.errors import HookFailed
from transformer_sdk.kserve.serving.exchange import Exchange

_RAW = b"application/octet-stream"
_TEXT = b"text/plain; charset=utf-8"


def to_response(result: Any, exchange: Exchange) -> Response | StreamingResponse:
    """Return the response for a result; raises HookFailed for one that cannot be sent."""
    given = hook_headers.encode(exchange.response_headers)
    if isinstance(result, (bytes, bytearray, memoryview)):
        return Response(bytes(result), content_type=_given_type(exchange, _RAW), headers=given)
    headers = tuple(pair for pair in given if pair[0] != JSON_LENGTH)  # it describes another body
    if isinstance(result, UpstreamResponse):
        return _forwarded(result, headers)
    if isinstance(result, AsyncIterator):
        return StreamingResponse(_pieces(result), content_type=_given_type(exchange, _RAW), headers=headers)
    if isinstance(result, InferResponse):
        return _infer_response(result, exchange, headers)
    if isinstance(result, str):
        return Response(result.encode(), content_type=_given_type(exchange, _TEXT), headers=headers)
    return Response(_json(result, exchange), headers=headers)


def _forwarded(response: UpstreamResponse, headers: Headers) -> Response | StreamingResponse:
    length = response.header(JSON_LENGTH)
    more: Headers = ((JSON_LENGTH, length),) if length else ()
    content_type = response.header(b"content-type") or b"application/json"
    if response.pieces:
        return StreamingResponse(response.pieces, content_type=content_type, headers=(*headers, *more))
    return Response(response.body, content_type=content_type, headers=(*headers, *more))


def _infer_response(response: InferResponse, exchange: Exchange, headers: Headers) -> Response:
    if exchange.protocol == "v2":
        response.set_defaults_from(exchange.content())
        response.id = response.id or exchange.call.id
    response.requested()  # raises for a requested output that does not exist, which is the client's error
    try:
        document, length = response.to_rest()
    except InvalidRequest as error:
        raise inconsistent(exchange.model, error) from error
    if isinstance(document, bytes):
        return Response(document, content_type=_RAW, headers=(*headers, (JSON_LENGTH, str(length).encode())))
    return Response(dump(document), headers=headers)


def inconsistent(model: str, error: InvalidRequest) -> HookFailed:
    """Return the error for an InferResponse whose data, datatype and shape do not agree."""
    return HookFailed(f"Model {model} returned an InferResponse that cannot be sent: {error}")


def _json(result: Any, exchange: Exchange) -> bytes:
    if result is None:
        raise HookFailed(f"Model {exchange.model} returned None: the last hook has no return, or a hook before it.")
    try:
        return dump(result)
    except TypeError as error:
        raise HookFailed(
            f"Model {exchange.model} returned {type(result).__name__}, which cannot be sent: {error}. "
            "Return what JSON can hold, an InferResponse, bytes, text, or an async iterator of them."
        ) from error


async def _pieces(result: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    try:
        async for piece in result:
            yield piece.encode() if isinstance(piece, str) else bytes(piece)
    except (SystemExit, KeyboardInterrupt) as error:  # raised in a task, these would end the server
        raise HookFailed(f"{type(error).__name__} : {text_of(error)}") from error


def _given_type(exchange: Exchange, otherwise: bytes) -> bytes:
    return hook_headers.content_type(exchange.response_headers, otherwise)
