"""Parameters of requests, responses and tensors, as programs give them: values, or gRPC's messages of values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformer_sdk.kserve.errors import InvalidInput


def values(parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    """With the value of each InferParameter in its place."""
    return {name: _value(one) for name, one in (parameters or {}).items()}


def for_grpc(parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    """The same; raises InvalidInput for what gRPC has no parameter for."""
    found = values(parameters)
    for name, one in found.items():
        if not isinstance(one, (bool, int, float, str)):
            raise InvalidInput(f"The parameter {name!r} is a {type(one).__name__}, which gRPC does not carry.")
    return found


def _value(one: Any) -> Any:
    if not hasattr(one, "WhichOneof"):
        return one
    field = one.WhichOneof("parameter_choice")
    return getattr(one, field) if field else None
