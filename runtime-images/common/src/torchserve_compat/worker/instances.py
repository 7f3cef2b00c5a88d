"""The instances in the body of a request."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from typing import Any

import orjson

from data_plane.errors import InvalidRequest
from torchserve_compat import values
from torchserve_compat.frames import HandlerRequest


def instances_in(request: HandlerRequest, parse: Callable[[bytes], Any] = orjson.loads) -> list[Any]:
    """Return the instances of a request; raises InvalidRequest, as the server has not fully parsed a v1 request."""
    try:
        document = parse(_body(request))
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(
            f"The request body cannot be read: {error.msg} (line {error.lineno}, column {error.colno})."
        ) from error
    instances = document.get("instances", document.get("inputs")) if isinstance(document, dict) else None
    if not isinstance(instances, list):
        raise InvalidRequest('The request is not {"instances": [...]}.')
    return instances


def has_instances(request: HandlerRequest) -> bool:
    """Return whether the body is {"instances": [...]}.

    {"inputs": …} does not count: TorchServe passes it on like any other JSON, and some handlers rely on that.
    """
    try:
        document = values.loads(_body(request))
    except ValueError:
        return False
    return isinstance(document, dict) and isinstance(document.get("instances"), list)


def decode_base64(instance: Any, index: int) -> Any:
    """Return the instance with each {"b64": …} decoded to bytes; raises InvalidRequest."""
    if not isinstance(instance, dict):
        return instance
    if list(instance) == ["b64"]:
        return _decode(instance["b64"], f"instance {index}")
    return {
        name: _decode(value["b64"], f'"{name}" of instance {index}')
        if isinstance(value, dict) and list(value) == ["b64"]
        else value
        for name, value in instance.items()
    }


def _body(request: HandlerRequest) -> bytes:
    return next((part.value for part in request.parts if part.name in ("data", "body")), b"")


def _decode(text: Any, where: str) -> bytes:
    """Decode base64, which may contain line breaks; raises InvalidRequest for characters that Python would skip."""
    if not isinstance(text, str):
        raise InvalidRequest(f'The "b64" in {where} is not text; it takes base64.')
    try:
        return b64decode("".join(text.split()), validate=True)
    except ValueError as error:
        raise InvalidRequest(f'The "b64" in {where} is not base64: {error}.') from error
