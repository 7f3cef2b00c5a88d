"""What is told of an exception in a handler. In the handler's process; needs the `torchserve` wheel for its own."""

from __future__ import annotations

import logging

from ts.utils.util import PredictionException

from data_plane.messages import encodable, words_of
from torchserve_compat import frames
from torchserve_compat.values import HandlerOutputError, status_of
from torchserve_compat.worker.context import NeedsOwnBatch

log = logging.getLogger(__name__)

_OUT_OF_MEMORY = 507


def failure_of(error: Exception) -> frames.Failure:
    """Its text and the status that clients get."""
    message, status = _told(error)
    return frames.Failure(message, status, alone=isinstance(error, NeedsOwnBatch))


def _told(error: Exception) -> tuple[str, int]:
    """What the client reads, and the status. A handler may quote its input: the text can be anything."""
    if isinstance(error, PredictionException):
        return encodable(str(error.message)), status_of(error.error_code) or 500
    words = words_of(error)
    if isinstance(error, NeedsOwnBatch):
        return words, 500
    log.warning("the handler failed", exc_info=error)
    if isinstance(error, HandlerOutputError):
        return words, 500
    if isinstance(error, MemoryError) or "CUDA" in words:
        return f"Out of memory: {words}" if words else "Out of memory", _OUT_OF_MEMORY
    return f"{type(error).__name__} : {words}", 500
