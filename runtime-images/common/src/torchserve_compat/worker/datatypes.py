"""What a handler's model takes, for errors of torch that tell of two datatypes and not of how to send the right one.

Runs in the handler's process, in which only handlers import torch.
"""

from __future__ import annotations

import re
import sys
from typing import Any

from data_plane.messages import text_of
from data_plane.protocol.v2.datatypes import DATATYPES

_MISMATCH = re.compile(
    r"have the same dtype|expected scalar type (Float|Double|Half|BFloat16) but found"
    r"|Input type \(.+\) and (bias|weight) type|input dtype \(.+\) does not match weight dtype|mixed dtype"
)
_NAMES = {each.torch: each.name for each in DATATYPES.values() if each.torch}
_FROM_JSON = "FP32"  # what torch makes of numbers, if one of them has a decimal point


def datatype_advice(error: Exception, handle: Any) -> str:
    """Return how to send what the model takes, if the error is that of another datatype; else an empty text."""
    model, nn = getattr(getattr(handle, "__self__", None), "model", None), sys.modules.get("torch.nn")
    if not nn or not isinstance(model, nn.Module) or not _MISMATCH.search(text_of(error)):
        return ""
    found = {str(one.dtype).removeprefix("torch.") for one in model.parameters() if one.is_floating_point()}
    if len(found) != 1:
        return ""
    (dtype,) = found
    name = _NAMES.get(dtype, dtype)
    send = f"send numbers with a decimal point, over v2 as {name}, or " if name == _FROM_JSON else ""
    convert = f"let the handler's preprocess convert its input with .to(torch.{dtype})"
    return f"The model's parameters are {name}: {send}{convert}."
