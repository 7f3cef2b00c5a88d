"""Conversion between bytes and the values that handlers take and return, as TorchServe does it."""

from __future__ import annotations

import inspect
import io
import json
import logging
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from data_plane.messages import is_header
from torchserve_compat.frames import HandlerResponse, RequestPart

log = logging.getLogger(__name__)

# Headers that a handler cannot set, as in TorchServe: they belong to the connection (RFC 9110 §7.6.1) or the server.
_RESERVED_HEADERS = {
    "connection", "content-length", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
}  # fmt: skip
_BYTES = "application/octet-stream"
_TEXT = "text/plain; charset=utf-8"
NOT_AWAITED = "The handler is `async def`, but handlers are not awaited: write `def`, and asyncio.run what it awaits."
_DUMP_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS


class HandlerOutputError(Exception):
    """The handler returned a value that cannot be a response."""


def decode(part: RequestPart, *, decodes: bool = True) -> Any:
    """Return a part as handlers get it: if it `decodes` (`decode_input_request`), JSON and text where possible."""
    try:
        if decodes and part.content_type == "application/json":
            return json.loads(part.value.decode())  # only UTF-8, as in TorchServe
        if decodes and part.content_type.startswith("text"):
            return part.value.decode()
    except (ValueError, RecursionError) as error:  # the second for JSON that is nested too deeply
        log.warning("a part of type %s is passed on without decoding: %s", part.content_type, error)
    return bytearray(part.value)


def loads(text: bytes) -> Any:
    """Parse JSON as Python does, with NaN and infinity; raises ValueError."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if error.pos == 0:  # nearly always an image or a text
            raise
        try:
            return json.loads(text.decode())
        except (ValueError, RecursionError):
            raise error from None


def results_of(results: Any, expected: int, *, or_fewer: bool = False) -> list[Any]:
    """Return the handler's results as a list, one for each input; raises HandlerOutputError.

    `or_fewer`: fewer results are accepted, but at least one.
    """
    results = results.tolist() if hasattr(results, "tolist") else results
    got = len(results) if isinstance(results, list | tuple) else type(results).__name__
    if got == expected or (or_fewer and got in range(1, expected)):
        return list(results)
    if inspect.iscoroutine(results):
        results.close()
        raise HandlerOutputError(NOT_AWAITED)
    raise HandlerOutputError(
        f"The handler must return one prediction per instance in a list: {expected} expected, got {got}"
    )


def encode_json(document: Any) -> bytes:
    """Return compact JSON; tensors and arrays become lists. Raises HandlerOutputError."""
    try:
        return orjson.dumps(document, default=_plain, option=_DUMP_OPTIONS)
    except TypeError as error:
        raise HandlerOutputError(f"The handler's result cannot be written as JSON: {error}") from error


def encode_indented(document: Any, indent: int | None = 2) -> bytes:
    """Return JSON as TorchServe writes it; raises HandlerOutputError."""
    try:
        return json.dumps(document, indent=indent).encode()
    except (TypeError, ValueError) as error:
        raise HandlerOutputError(f"The handler's result cannot be written as JSON: {error}") from error


def encode(result: Any) -> tuple[bytes, str]:
    """Return (body, content type) for one result of a handler without an envelope; raises HandlerOutputError."""
    if isinstance(result, bytes | bytearray):
        return bytes(result), _BYTES
    if isinstance(result, str):
        return result.encode(), _TEXT
    if _is_tensor(result):
        file = io.BytesIO()
        sys.modules["torch"].save(result, file)
        return file.getvalue(), _BYTES
    return encode_indented(result), "application/json"


def kind_of(body: bytes) -> str:
    try:
        body.decode()
    except UnicodeDecodeError:
        return _BYTES
    return _TEXT


def responses_of(bodies: Sequence[tuple[bytes, str]], context: Any) -> list[HandlerResponse]:
    """Return the bodies as responses, with the status, content type and headers that the handler set for each."""
    return [response_of(body, kind, context, index) for index, (body, kind) in enumerate(bodies)]


def response_of(body: bytes, kind: str, context: Any, index: int) -> HandlerResponse:
    status, _ = context.get_response_status(index)
    if status == 200 and not context.get_response_headers(index):
        return HandlerResponse(body, content_type=kind)
    headers = headers_of(context.get_response_headers(index))
    kind = headers.pop("content-type", "") or kind
    code = status_of(status or 200)
    if code is None:
        raise HandlerOutputError(f"The handler set the status {status!r}, which no response can have (200 to 599).")
    return HandlerResponse(body, code, kind, list(headers.items()))


def status_of(code: Any) -> int | None:
    """Return a handler's status code as an integer; None if no response can have it."""
    try:
        status = int(code)
    except (TypeError, ValueError):
        return None
    return status if 200 <= status < 600 else None


def headers_of(given: Mapping[Any, Any]) -> dict[str, str]:
    """Return the handler's headers as HTTP can carry them; characters outside latin-1 become question marks, as in
    TorchServe. Raises HandlerOutputError."""
    headers = {}
    for name, value in ((str(name), str(value)) for name, value in given.items()):
        if not is_header(name, value):
            raise HandlerOutputError(f"The handler set the header {name!r} to {value!r}, which HTTP cannot carry.")
        if name.lower() not in _RESERVED_HEADERS:
            headers[name.lower()] = value.strip().encode("latin-1", "replace").decode("latin-1")
    return headers


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")  # a handler that returns a tensor has imported torch
    return torch is not None and isinstance(value, torch.Tensor)


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON serializable")
