"""KServe's Python SDK for transformers and predictors, by the same names.

`import transformer_sdk as kserve` has `transformer_sdk.kserve`'s names, imported when they are first used;
`import transformer_sdk` alone costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformer_sdk.kserve import *  # noqa: F403

__version__ = "0.2.0"


def __getattr__(name: str) -> Any:
    kserve = importlib.import_module(f"{__name__}.kserve")
    if name not in (*kserve.__all__, "__all__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(kserve, name)
