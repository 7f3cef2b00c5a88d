"""A sample request, made from what a model says of its inputs. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod
from typing import Any

from isvc_operator.limits import SAMPLE_VALUES

_NUMBERS = {
    **dict.fromkeys(("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"), 0),
    **dict.fromkeys(("FP16", "BF16", "FP32", "FP64"), 0.0),
}
_VALUES: Mapping[str, Any] = {**_NUMBERS, "BOOL": False, "BYTES": ""}


def sample_of(metadata: Any) -> bytes | None:
    """Return a request of v2 with zeros, from a model's metadata; None if that does not say what the inputs are.

    A size that may vary, such as that of the batch, is 1.
    """
    inputs = metadata.get("inputs") if isinstance(metadata, dict) else None
    if not isinstance(inputs, list) or not inputs:
        return None
    tensors = [_tensor(item) for item in inputs]
    if not all(tensors) or sum(len(tensor["data"]) for tensor in tensors if tensor) > SAMPLE_VALUES:
        return None
    return json.dumps({"inputs": tensors}).encode()


def _tensor(item: Any) -> dict[str, Any] | None:
    if not isinstance(item, dict) or item.get("datatype") not in _VALUES or not isinstance(item.get("name"), str):
        return None
    shape = item.get("shape")
    if not isinstance(shape, list) or not all(type(size) is int for size in shape):
        return None
    sizes = [max(size, 1) for size in shape]
    if prod(sizes) > SAMPLE_VALUES:
        return None
    return {
        "name": item["name"],
        "datatype": item["datatype"],
        "shape": sizes,
        "data": [_VALUES[item["datatype"]]] * prod(sizes),
    }
