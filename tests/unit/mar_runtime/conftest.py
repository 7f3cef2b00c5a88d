"""What imports say is not tested here: TorchServe's wheel leaves a file open, torch warns of pynvml."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", ResourceWarning)
    warnings.simplefilter("ignore", FutureWarning)
    import ts.metrics.caching_metric
    import ts.protocol.otf_message_handler  # noqa: F401
