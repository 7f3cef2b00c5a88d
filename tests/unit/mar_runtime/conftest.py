"""What an import says is no fault of what is tested here: TorchServe's wheel leaves a file open."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", ResourceWarning)
    import ts.metrics.caching_metric  # noqa: F401
