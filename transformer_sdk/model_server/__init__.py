"""What every model server of this project does alike: its flags, its life, its end.

For `from transformer_sdk import model_server` in place of `from kserve import model_server` it also has `parser`.
"""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    if name not in ("ModelServer", "args", "parser"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("transformer_sdk.kserve.model_server"), name)
