"""The cost of encoding values of hooks, which decides whether a thread does it. Pure."""

from __future__ import annotations

from typing import Any

from transformer_sdk.kserve.protocol.infer_tensor import NamedTensor
from transformer_sdk.kserve.protocol.infer_type import InferRequest, InferResponse

_ELEMENT = 8  # bytes that an element counts as


def weight(value: Any) -> int:
    """Return the cost in bytes; the first of nested lists stands for all, and deeper ones are not inspected."""
    if isinstance(value, InferResponse):
        return sum([_of_tensor(one) for one in value.outputs])
    if isinstance(value, InferRequest):
        return sum([_of_tensor(one) for one in value.inputs])
    if isinstance(value, dict):
        return sum([_ELEMENT * _elements(one) for one in value.values()])
    return 0


def _of_tensor(tensor: NamedTensor) -> int:
    raw = tensor.raw_data
    return _ELEMENT * _elements(tensor.data) if raw is None else len(raw)


def _elements(value: Any) -> int:
    if isinstance(value, list):
        rows, first = len(value), next(iter(value), None)
        return rows * max(1, len(first)) if isinstance(first, (list, dict)) else rows
    size = getattr(value, "size", 0)
    return size if isinstance(size, int) else 0
