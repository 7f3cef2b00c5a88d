"""What goes wrong with TorchServe: the errors of requests, and the one that ends the adapter.

Beside it, the errors of `transformer_sdk.model_store.errors` end the adapter:

code  class                 what to look at
5     TorchServeDied        the log lines above; memory limits
"""

from __future__ import annotations

from transformer_sdk.errors import NotReady, UpstreamBroken, UpstreamTimeout
from transformer_sdk.model_store.errors import StartError

COMPONENT = "torchserve"


class TorchServeDied(StartError):
    """The Java process ended by itself."""

    exit_code = 5


class TorchServeAbsent(NotReady):
    """Nobody listens where TorchServe should."""

    component = COMPONENT


class ConnectionBroken(UpstreamBroken):
    """TorchServe hung up in the middle of a request, or answered what is no answer."""

    component = COMPONENT


class WorkerTooSlow(UpstreamTimeout):
    """TorchServe gave up on its worker, or never answered."""

    component = COMPONENT
