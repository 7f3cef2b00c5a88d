"""Values of either SDK as JSON, so that those of two processes can be compared. Pure."""

from __future__ import annotations

import datetime
import enum
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

_TENSORS = ("name", "shape", "datatype", "data", "parameters")
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "InferInput": _TENSORS,
    "InferOutput": _TENSORS,
    "RequestedOutput": ("name", "parameters", "binary_data"),
    "InferRequest": ("id", "model_name", "model_version", "inputs", "parameters", "from_grpc", "request_outputs"),
    "InferResponse": ("id", "model_name", "model_version", "outputs", "parameters", "from_grpc"),
}
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def plain(value: Any) -> Any:
    """What was made at random is replaced by what it is."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return _UUID.sub("<uuid>", value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"bytes": bytes(value).decode("latin-1")}
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return _object(value)


def _object(value: Any) -> Any:
    kind = type(value).__name__
    if kind in _FIELDS:
        return {kind: {name: plain(getattr(value, name)) for name in _FIELDS[kind]}}
    if isinstance(value, Message):
        return {value.DESCRIPTOR.full_name: MessageToDict(value)}
    if isinstance(value, np.ndarray):
        return {str(value.dtype): plain(value.tolist()), "shape": list(value.shape)}
    if isinstance(value, (np.dtype, np.generic)) or (isinstance(value, type) and issubclass(value, np.generic)):
        return str(np.dtype(value) if not isinstance(value, np.generic) else value)
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    if kind == "DataFrame":
        return {"frame": plain(value.to_dict("list")), "index": list(value.index)}
    if isinstance(value, type):
        return value.__name__
    return f"<{kind}>"


def raised(error: BaseException) -> Any:
    """By the names of its class and of those that it is one of."""
    of_python = {one.__name__ for one in type(error).__mro__ if one.__module__ == "builtins"}
    return {"raises": type(error).__name__, "is": sorted(of_python - {"object", "BaseException", "Exception"})}
