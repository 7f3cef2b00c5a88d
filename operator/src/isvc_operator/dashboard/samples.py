"""The body of a sample request, from a model's metadata or an uploaded image. Pure."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from isvc_operator import limits


class Protocol(Enum):
    """The protocols that the form sends."""

    V1 = "v1"
    V2 = "v2"


_TEXT = "BYTES"
_EMPTY_INSTANCE = {"data": "Hello World!"}


def target(protocol: Protocol, model: str) -> str:
    """Return the path that a model is called by; ``model`` is percent-encoded."""
    return f"/v1/models/{model}:predict" if protocol is Protocol.V1 else f"/v2/models/{model}/infer"


def sample(protocol: Protocol, metadata: Mapping[str, Any]) -> str:
    """Return a body that the model's inputs fit: zeros, and a text for bytes; a text if it declares no inputs."""
    inputs = _inputs(metadata)
    if protocol is Protocol.V1:
        value: Any = {"instances": [_instance(inputs)]}
    else:
        value = {"inputs": [_tensor(item) for item in inputs] or [_bytes_tensor("data", "Hello World!")]}
    return json.dumps(value, indent=2) if len(str(value)) < 200 else _rows(value)


def with_file(protocol: Protocol, metadata: Mapping[str, Any], content: bytes) -> bytes:
    """Return a body that has a file in base64: in ``data`` of an instance, or in the model's first input of bytes."""
    text = base64.b64encode(content).decode()
    if protocol is Protocol.V1:
        return json.dumps({"instances": [{"data": text}]}).encode()
    inputs = _inputs(metadata)
    name = next((item["name"] for item in inputs if item["datatype"] == _TEXT), inputs[0]["name"] if inputs else "data")
    return json.dumps({"inputs": [_bytes_tensor(name, text)]}).encode()


def _inputs(metadata: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = metadata.get("inputs")
    items = found if isinstance(found, Sequence) and not isinstance(found, str) else ()
    return [item for item in items if isinstance(item, Mapping) and {"name", "datatype", "shape"} <= item.keys()]


def _bytes_tensor(name: str, text: str) -> dict[str, Any]:
    return {"name": name, "datatype": _TEXT, "shape": [1], "data": [text]}


def _tensor(item: Mapping[str, Any]) -> dict[str, Any]:
    shape = _shape(item["shape"])
    count = min(math.prod(shape), limits.DASHBOARD_SAMPLE_VALUES)
    return {
        "name": item["name"],
        "datatype": item["datatype"],
        "shape": shape if math.prod(shape) == count else [count],
        "data": [_zero(item["datatype"])] * count,
    }


def _instance(inputs: Sequence[Mapping[str, Any]]) -> Any:
    if not inputs:
        return _EMPTY_INSTANCE
    rows = {item["name"]: _nested(_shape(item["shape"])[1:], _zero(item["datatype"])) for item in inputs}
    return next(iter(rows.values())) if len(rows) == 1 else rows


def _nested(shape: Sequence[int], value: Any) -> Any:
    if math.prod(shape) > limits.DASHBOARD_SAMPLE_VALUES:
        return [value] * limits.DASHBOARD_SAMPLE_VALUES
    for size in reversed(shape):
        value = [value] * size
    return value


def _shape(shape: Any) -> list[int]:
    sizes = shape if isinstance(shape, Sequence) and not isinstance(shape, str) else ()
    return [size if isinstance(size, int) and size > 0 else 1 for size in sizes[:8]] or [1]


def _zero(datatype: Any) -> Any:
    if datatype == _TEXT:
        return "text"
    if datatype == "BOOL":
        return False
    return 0.0 if str(datatype).startswith(("FP", "BF")) else 0


def _rows(value: Any) -> str:
    """Return JSON with one line for each instance or tensor: numbers one below the other are long, and say little."""
    ((name, items),) = value.items()
    lines = ",\n".join(f"    {json.dumps(item)}" for item in items)
    return f'{{\n  "{name}": [\n{lines}\n  ]\n}}'
