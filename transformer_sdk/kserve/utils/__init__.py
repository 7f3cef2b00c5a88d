"""`kserve.utils`: the package in one import, its module `utils` in another. Here each has the names of both."""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.utils"), name)  # it needs numpy
