"""What imports say is not tested here: TorchServe's wheel leaves a file open, torch warns of pynvml."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", ResourceWarning)
    warnings.simplefilter("ignore", FutureWarning)
    import ts.handler_utils.utils  # noqa: F401
