"""TorchServe's wheel leaves a file open when it is imported, which is no fault of what is tested here."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", ResourceWarning)
    import ts  # noqa: F401
