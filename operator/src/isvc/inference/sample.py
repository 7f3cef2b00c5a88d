"""A sample request, made from what a model says of its inputs. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from isvc.limits import SAMPLE_DIMENSIONS, SAMPLE_VALUES
from isvc_operator.text import one_line

_NUMBERS = {
    **dict.fromkeys(("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"), 0),
    **dict.fromkeys(("FP16", "BF16", "FP32", "FP64"), 0.0),
}
_VALUES: Mapping[str, Any] = {**_NUMBERS, "BOOL": False, "BYTES": ""}
Tensor = dict[str, Any]


class TooLarge(Exception):
    """The inputs have more values than a sample may have."""


def sample_of(metadata: Any) -> bytes | None:
    """Return a request of v2 with zeros, from a model's metadata; None if that does not say what the inputs are.

    A size that may vary, such as that of the batch, is 1.
    """
    try:
        tensors = tensors_of(metadata, SAMPLE_VALUES)
    except TooLarge:
        return None
    return json.dumps({"inputs": tensors}).encode() if tensors else None


def tensors_of(metadata: Any, most: int) -> list[Tensor]:
    """Return a tensor of zeros for each input; none if the metadata does not say what they are.

    Raises TooLarge if they have more than ``most`` values, all together.
    """
    inputs = metadata.get("inputs") if isinstance(metadata, dict) else None
    if not isinstance(inputs, list) or guessed_inputs(metadata):
        return []
    shapes = [_shape(item) for item in inputs]
    sizes = [shape for shape in shapes if shape is not None]
    if len(sizes) < len(shapes):
        return []
    counts = []
    for shape in sizes:
        counts.append(_count(shape, most))
        if sum(counts) > most:
            raise TooLarge
    return [
        {
            "name": item["name"],
            "datatype": item["datatype"],
            "shape": shape,
            "data": [_VALUES[item["datatype"]]] * count,
        }
        for item, shape, count in zip(inputs, sizes, counts, strict=True)
    ]


def guessed_inputs(metadata: Any) -> list[str]:
    """Return the inputs of which only the names are known: scripted TorchScript does not say what its tensors hold."""
    if not isinstance(metadata, dict) or metadata.get("platform") != "pytorch_torchscript":
        return []
    inputs = metadata.get("inputs")
    found = [item for item in inputs if isinstance(item, dict)] if isinstance(inputs, list) else []
    return [str(item.get("name")) for item in found] if [-1] in [item.get("shape") for item in found] else []


def unknown_inputs(metadata: Any) -> str:
    """Return what a model leaves open of its inputs, as a sentence goes on after its name."""
    names = [one_line(name) for name in guessed_inputs(metadata)]
    if not names:
        return "does not say what it takes"
    listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return f"takes {listed}, and does not say what {'it holds' if len(names) == 1 else 'they hold'}"


def _shape(item: Any) -> list[int] | None:
    """Return the sizes of an input; None if that is not what it says."""
    if not isinstance(item, dict) or not isinstance(item.get("name"), str):
        return None
    if not isinstance(item.get("datatype"), str) or item["datatype"] not in _VALUES:
        return None
    shape = item.get("shape")
    if not isinstance(shape, list) or len(shape) > SAMPLE_DIMENSIONS or not all(type(size) is int for size in shape):
        return None
    return [max(size, 1) for size in shape]


def _count(shape: list[int], most: int) -> int:
    """Return how many values there are, as far as they are not too many: sizes can be any number."""
    count = 1
    for size in shape:
        count = min(count * size, most + 1)
    return count
