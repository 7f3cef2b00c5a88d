"""Errors of TorchServe: those of requests, and the one that ends the adapter.

The errors of `data_plane.model_server.errors` also end the adapter:

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
    """TorchServe's Java process ended by itself."""

    exit_code = 5


class TorchServeAbsent(NotReady):
    """TorchServe does not accept connections."""

    component = COMPONENT


class ConnectionBroken(UpstreamBroken):
    """TorchServe closed the connection during a request, or sent an invalid response."""

    component = COMPONENT


class WorkerTooSlow(UpstreamTimeout):
    """TorchServe gave up on its worker, or did not respond."""

    component = COMPONENT


@contextlib.contextmanager
def broken_connections() -> Iterator[None]:
    """Turn errors of a connection to TorchServe into TorchServeAbsent and ConnectionBroken."""
    try:
        yield
    except PredictorUnreachable as error:
        raise TorchServeAbsent(f"{COMPONENT}: no connection to TorchServe.") from error
    except PredictorBroken as error:
        raise ConnectionBroken(f"{COMPONENT}: {error.reason}.") from error


def message_of(content: bytes) -> str:
    """Return the message of TorchServe's error {"code", "type", "message"}."""
    try:
        return str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError):
        return content.decode("utf-8", "replace").strip() or "an error without a message"
