"""Between bytes and what handlers take and return, as TorchServe converts them."""

from __future__ import annotations

import inspect
import io
import json
import logging
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from torchserve_compat.frames import Answer, Part

log = logging.getLogger(__name__)

# Of the connection, not of the answer (RFC 9110 §7.6.1), or the server's to say: as in TorchServe, a handler sets none.
_NOT_ITS_OWN = {
    "connection", "content-length", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
}  # fmt: skip
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 §5.6.2
_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_BYTES = "application/octet-stream"
_TEXT = "text/plain; charset=utf-8"
NOT_AWAITED = "The handler is `async def`, but handlers are not awaited: write `def`, and asyncio.run what it awaits."
_DUMP_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS


class HandlerOutputError(Exception):
    """What the handler returned cannot be an answer."""


def decode(part: Part, *, parses_json: bool = True) -> Any:
    """A part as handlers get it: JSON and text decoded, where that works."""
    try:
        if parses_json and part.content_type == "application/json":
            return json.loads(part.value.decode())  # in UTF-8 and no other, as TorchServe
        if part.content_type.startswith("text"):
            return part.value.decode()
    except (ValueError, RecursionError) as error:  # the second: too many lists in one another
        log.warning("a part of type %s is handed over as it is: %s", part.content_type, error)
    return bytearray(part.value)


def loads(text: bytes) -> Any:
    """JSON as Python reads and writes it, with NaN and infinity; raises ValueError."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if error.pos == 0:  # nearly always: an image, a text
            raise
        try:
            return json.loads(text.decode())
        except (ValueError, RecursionError):
            raise error from None


def results_of(results: Any, expected: int, *, or_fewer: bool = False) -> list[Any]:
    """The handler's results, one for each piece of its input; raises HandlerOutputError.

    `or_fewer`: some of them will do, but not none.
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
    """Compact JSON; tensors and arrays become lists. Raises HandlerOutputError."""
    try:
        return orjson.dumps(document, default=_plain, option=_DUMP_OPTIONS)
    except TypeError as error:
        raise HandlerOutputError(f"The handler's result cannot be written as JSON: {error}") from error


def encode_indented(document: Any, indent: int | None = 2) -> bytes:
    """JSON as TorchServe writes it. Raises HandlerOutputError."""
    try:
        return json.dumps(document, indent=indent).encode()
    except (TypeError, ValueError) as error:
        raise HandlerOutputError(f"The handler's result cannot be written as JSON: {error}") from error


def encode(result: Any) -> tuple[bytes, str]:
    """(body, content type) of one result of a handler without an envelope. Raises HandlerOutputError."""
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
    """The content type of a piece of an answer, of which nobody has kept what it was."""
    try:
        body.decode()
    except UnicodeDecodeError:
        return _BYTES
    return _TEXT


def answers(bodies: Sequence[tuple[bytes, str]], context: Any) -> list[Answer]:
    """The bodies with the status, the content type and the headers that the handler set for each request."""
    return [answer(body, kind, context, index) for index, (body, kind) in enumerate(bodies)]


def answer(body: bytes, kind: str, context: Any, index: int) -> Answer:
    """The same for one request, by its place."""
    status, _ = context.get_response_status(index)
    if status == 200 and not context.get_response_headers(index):
        return Answer(body, content_type=kind)
    headers = headers_of(context.get_response_headers(index))
    kind = headers.pop("content-type", "") or kind
    code = status_of(status or 200)
    if code is None:
        raise HandlerOutputError(f"The handler set the status {status!r}, which no answer can have (200 to 599).")
    return Answer(body, code, kind, list(headers.items()))


def status_of(code: Any) -> int | None:
    """A handler's word for a status as one that an answer can have; None if it is none."""
    try:
        status = int(code)
    except (TypeError, ValueError):
        return None
    return status if 200 <= status < 600 else None


def headers_of(given: Mapping[Any, Any]) -> dict[str, str]:
    """What HTTP can carry of the handler's headers; what latin-1 lacks becomes a question mark, as in TorchServe."""
    headers = {}
    for name, value in ((str(name), str(value)) for name, value in given.items()):
        if not _NAME.fullmatch(name) or _CONTROLS.search(value):
            raise HandlerOutputError(f"The handler set the header {name!r} to {value!r}, which HTTP cannot carry.")
        if name.lower() not in _NOT_ITS_OWN:
            headers[name.lower()] = value.strip().encode("latin-1", "replace").decode("latin-1")
    return headers


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")  # who returns a tensor has imported it
    return torch is not None and isinstance(value, torch.Tensor)


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON serializable")
