"""How many instances a request has, and whether the handler gets it as one row. Pure."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection
from typing import get_args

import msgspec

from torchserve_compat import frames


class _Instances(msgspec.Struct):
    instances: list[msgspec.Raw]


_instances = msgspec.json.Decoder(_Instances)
_JSON_OBJECT = re.compile(rb"\s*\{")


def forms_of_one_row(envelope: str) -> Collection[str]:
    """Return the forms whose requests are one row each for a handler behind this envelope.

    The tensors of kservev2 are the inputs of one call: a handler may identify them by their position in the list.
    """
    return get_args(frames.Form) if envelope in ("none", "body", "kservev2") else ("raw", "raw-explain")


def is_one_row(request: frames.HandlerRequest) -> bool:
    """Return whether the handler certainly gets the request as one row: it has no JSON object as its body."""
    return all(part.name == "body" and _JSON_OBJECT.match(part.value) is None for part in request.parts)


def count_instances(body: bytes) -> int:
    """Return the number of instances in a body of TorchServe's API; a body without instances is one row."""
    if body.startswith(b"{"):
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            return len(_instances.decode(body).instances)
    return 1
