"""Parameters of requests, responses and tensors in user code: values, or gRPC messages of values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformer_sdk.kserve.errors import InvalidInput


def values(parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the parameters with each InferParameter replaced by its value."""
    return {name: _value(one) for name, one in (parameters or {}).items()}


def for_grpc(parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the same without nulls; raises InvalidInput for a type that gRPC parameters do not support."""
    found = {name: one for name, one in values(parameters).items() if one is not None}
    for name, one in found.items():
        if not isinstance(one, (bool, int, float, str)):
            raise InvalidInput(f"The parameter {name!r} is a {type(one).__name__}, which gRPC does not carry.")
    return found


def _value(one: Any) -> Any:
    if not hasattr(one, "WhichOneof"):
        return one
    field = one.WhichOneof("parameter_choice")
    return getattr(one, field) if field else None
