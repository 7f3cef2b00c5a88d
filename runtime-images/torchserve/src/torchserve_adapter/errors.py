"""What goes wrong with TorchServe: the errors of requests, and the one that ends the adapter.

Beside it, the errors of `data_plane.model_server.errors` end the adapter:

code  class                 what to look at
5     TorchServeDied        the log lines above; memory limits
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

from data_plane.client.errors import PredictorBroken, PredictorUnreachable
from data_plane.errors import NotReady, UpstreamBroken, UpstreamTimeout
from data_plane.model_server.errors import StartError

COMPONENT = "torchserve"


class TorchServeDied(StartError):
    """The Java process ended by itself."""

    exit_code = 5


class TorchServeAbsent(NotReady):
    """Nobody listens where TorchServe should."""

    component = COMPONENT


class ConnectionBroken(UpstreamBroken):
    """TorchServe hung up in the middle of a request, or sent what is no HTTP response."""

    component = COMPONENT


class WorkerTooSlow(UpstreamTimeout):
    """TorchServe gave up on its worker, or never answered."""

    component = COMPONENT


@contextlib.contextmanager
def broken_connections() -> Iterator[None]:
    """What goes wrong with a connection to TorchServe, as one of our errors."""
    try:
        yield
    except PredictorUnreachable as error:
        raise TorchServeAbsent(f"{COMPONENT}: no connection to TorchServe.") from error
    except PredictorBroken as error:
        raise ConnectionBroken(f"{COMPONENT}: {error.__cause__}.") from error


def message_of(content: bytes) -> str:
    """TorchServe's errors are {"code", "type", "message"}."""
    try:
        return str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError):
        return content.decode("utf-8", "replace").strip() or "an error without a message"
