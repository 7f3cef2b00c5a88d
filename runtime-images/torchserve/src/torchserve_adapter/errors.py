"""What ends the adapter beside the errors of `transformer_sdk.model_store.errors`.

code  class                 what to look at
5     TorchServeDied        the log lines above; memory limits
"""

from __future__ import annotations

from transformer_sdk.model_store.errors import StartError


class TorchServeDied(StartError):
    """The Java process ended by itself."""

    exit_code = 5
