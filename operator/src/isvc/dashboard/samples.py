"""The body of a sample request, from a model's metadata or an uploaded image. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from isvc import limits
from isvc.inference.protocol import InferenceProtocol
from isvc.inference.sample import Tensor, TooLarge, guessed_inputs, tensors_of

_TEXT = "BYTES"
_UNKNOWN = "The model does not say what it takes. Put your own input in place of this text, or choose a file."
_NAMED = "The model does not say what its inputs hold. Write your own input into the brackets, or choose a file."
_EMPTY_INSTANCE = {"data": "Hello World!"}


@dataclass(frozen=True)
class SampleBody:
    """A body to begin with; ``note`` says why there is none, or that it is a guess."""

    body: str
    note: str = ""


def sample(protocol: InferenceProtocol, metadata: Any) -> SampleBody:
    """Return a body that the model's inputs fit: zeros; a text if it declares no inputs that can be written."""
    if names := guessed_inputs(metadata):
        empty = [{"name": name, "datatype": "FP32", "shape": [], "data": []} for name in names]
        return SampleBody(_rows({"instances": []} if protocol is InferenceProtocol.V1 else {"inputs": empty}), _NAMED)
    try:
        tensors = tensors_of(metadata, limits.DASHBOARD_SAMPLE_VALUES)
    except TooLarge:
        most = f"{limits.DASHBOARD_SAMPLE_VALUES:,}"
        return SampleBody("", f"The model's inputs have more than {most} values, so there is no sample. Choose a file.")
    if protocol is InferenceProtocol.V1:
        value: Any = {"instances": [_instance(tensors)]}
    else:
        value = {"inputs": tensors or [_bytes_tensor("data", "Hello World!")]}
    return SampleBody(
        json.dumps(value, indent=2) if len(str(value)) < 200 else _rows(value), "" if tensors else _UNKNOWN
    )


def with_file(protocol: InferenceProtocol, metadata: Any, text: str) -> str:
    """Return a body that has a file's base64: in ``data`` of an instance, or in the model's first input of bytes."""
    if protocol is InferenceProtocol.V1:
        return json.dumps({"instances": [{"data": text}]})
    inputs = _inputs(metadata)
    name = next(
        (item["name"] for item in inputs if item.get("datatype") == _TEXT), inputs[0]["name"] if inputs else "data"
    )
    return json.dumps({"inputs": [_bytes_tensor(name, text)]})


def _inputs(metadata: Any) -> list[Mapping[str, Any]]:
    found = metadata.get("inputs") if isinstance(metadata, Mapping) else None
    items = found if isinstance(found, list) else []
    return [item for item in items if isinstance(item, Mapping) and isinstance(item.get("name"), str)]


def _bytes_tensor(name: str, text: str) -> dict[str, Any]:
    return {"name": name, "datatype": _TEXT, "shape": [1], "data": [text]}


def _instance(tensors: Sequence[Tensor]) -> Any:
    if not tensors:
        return _EMPTY_INSTANCE
    rows = {item["name"]: _nested(item["shape"][1:], item["data"]) for item in tensors}
    return next(iter(rows.values())) if len(rows) == 1 else rows


def _nested(shape: Sequence[int], values: Sequence[Any]) -> Any:
    """Return the first values in lists of this shape; they are all the same."""
    value = values[0]
    for size in reversed(shape):
        value = [value] * size
    return value


def _rows(value: Any) -> str:
    """Return JSON with one line for each instance or tensor: numbers one below the other are long, and say little."""
    ((name, items),) = value.items()
    lines = ",\n".join(f"    {json.dumps(item)}" for item in items)
    return f'{{\n  "{name}": [\n{lines}\n  ]\n}}'
