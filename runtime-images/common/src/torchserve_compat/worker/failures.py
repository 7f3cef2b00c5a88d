"""What clients get for an exception in a handler: a message and an HTTP status.

Runs in the handler's process; needs the `torchserve` wheel for its exception.
"""

from __future__ import annotations

import logging
import time
import traceback

from ts.utils.util import PredictionException

from data_plane import gpu
from data_plane.messages import encodable, text_of
from torchserve_compat import frames
from torchserve_compat.values import HandlerOutputError, status_of
from torchserve_compat.worker.context import NeedsOwnBatch
from torchserve_compat.worker.datatypes import datatype_advice
from torchserve_compat.worker.merging import Handle
from torchserve_compat.worker.unwrapped import advice_noted

log = logging.getLogger(__name__)

_INTERNAL_SERVER_ERROR = 500
_OUT_OF_MEMORY = 507
_AGAIN_S = 60.0  # until an exception from the same place is logged again; the server logs each response
_KEPT = 100  # places
_TOO_FEW_CLASSES = "selected index k out of range"  # torch's words, of TorchServe's image_classifier with few classes
_CURE_OF_CLASSES = (
    "The model has fewer classes than the topk that the handler asks for, 5 in TorchServe's image_classifier; set it "
    "in a class of your own: class MyClassifier(ImageClassifier): topk = 3."
)

_logged: dict[tuple[type, str, int | None], float] = {}  # when an exception was logged, by its type and its place


def failure_of(error: Exception, handle: Handle, folder: str | None) -> frames.HandlerFailure:
    """Return the failure that the server sends; log it, unless the handler chose it or its requests run again alone.

    `folder` is that of the unpacked archive.
    """
    if isinstance(error, HandlerOutputError):  # the frames of its traceback are ours
        log.warning("the handler failed: %s", text_of(error))
    elif not isinstance(error, PredictionException | NeedsOwnBatch):
        log.log(logging.WARNING if _is_news(error) else logging.DEBUG, "the handler failed", exc_info=error)
    message = _error_message(error, handle)
    if folder:
        message = with_model_dir(message, folder)
    return frames.HandlerFailure(message, http_status(error), alone=isinstance(error, NeedsOwnBatch))


def with_model_dir(message: str, folder: str) -> str:
    """Return a message without the place of the unpacked archive, under the name by which handlers know it."""
    return message.replace(f"{folder}/", "<model_dir>/")


def _is_news(error: Exception) -> bool:
    """Whether no such exception was logged in the last minute."""
    place = traceback.extract_tb(error.__traceback__, limit=-1)
    cause = (type(error), place[0].filename, place[0].lineno) if place else (type(error), "", None)
    now = time.monotonic()
    if now - _logged.get(cause, -_AGAIN_S) < _AGAIN_S:
        return False
    if len(_logged) == _KEPT:
        _logged.clear()
    _logged[cause] = now
    return True


def http_status(error: Exception) -> int:
    """Return the code that the handler chose, 507 if memory ran out, else 500."""
    if isinstance(error, PredictionException):
        return status_of(error.error_code) or _INTERNAL_SERVER_ERROR
    return _OUT_OF_MEMORY if _is_out_of_memory(error) else _INTERNAL_SERVER_ERROR


def _error_message(error: Exception, handle: Handle) -> str:
    """Return the text that the client reads. A handler may quote its input, so the text can be anything."""
    if isinstance(error, PredictionException):
        return encodable(str(error.message))
    text = text_of(error)
    if isinstance(error, NeedsOwnBatch):
        return text
    if isinstance(error, HandlerOutputError):
        advice = advice_noted(error)
        return f"{text.removesuffix('.')}. {advice}" if advice else text
    if _is_out_of_memory(error):
        return f"Out of memory: {text}" if text else "Out of memory"
    if gpu.is_lost():
        return f"{type(error).__name__} : {gpu.why_lost(error)}"
    advice = _CURE_OF_CLASSES if text == _TOO_FEW_CLASSES else datatype_advice(error, handle) or advice_noted(error)
    return f"{type(error).__name__} : {text}" + (f". {advice}" if advice else "")


def _is_out_of_memory(error: Exception) -> bool:
    return not isinstance(error, NeedsOwnBatch | HandlerOutputError) and gpu.is_out_of_memory(error)
