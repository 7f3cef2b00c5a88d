"""Loads an archive's handler in the process that runs it. Needs the `torchserve` wheel.

It extends TorchServe's own loader: it puts `HandlerCalls` between requests and handler, and reports why loading failed.
"""

from __future__ import annotations

import gc
import inspect
import logging
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ts.model_loader import TsModelLoader

from data_plane.garbage import no_collections
from data_plane.messages import text_of
from torchserve_compat.values import NOT_AWAITED
from torchserve_compat.worker.calls import HandlerCalls
from torchserve_compat.worker.failures import with_model_dir

_THEIR_HANDLERS = "ts.torch_handler."
_CLASSIFIERS = ("image_classifier", "object_detector", "text_classifier", "dali_image_classifier")
# Of what TorchServe's handlers import: it tells that the first import on a machine takes a moment.
logging.getLogger("matplotlib.font_manager").addFilter(lambda record: "font cache" not in record.getMessage())


def _matters(record: logging.LogRecord) -> bool:
    """Drop that there are no names of classes, which BaseHandler says of every model, where no handler reads them."""
    is_classifier = any(f"{_THEIR_HANDLERS}{name}" in sys.modules for name in _CLASSIFIERS)
    return is_classifier or not record.getMessage().endswith("Inference output will not include class name.")


logging.getLogger("ts.utils.util").addFilter(_matters)


@dataclass(frozen=True)
class LoadFailure:
    """Why a model could not be loaded: the exception and the place in the user's own code."""

    model: str
    type: str
    message: str
    where: str
    missing_module: str | None

    def document(self) -> dict[str, str | None]:
        return asdict(self)


class HandlerLoader(TsModelLoader):  # type: ignore[misc]  # the wheel has no types
    """Loads a handler: `load` returns TorchServe's Service, `calls` runs batches on it.

    `report` is called with the reason if loading fails; `decodes` is passed to HandlerCalls.
    """

    calls: HandlerCalls

    def __init__(self, report: Callable[[LoadFailure], None], *, decodes: bool = True) -> None:
        self._report = report
        self._decodes = decodes

    def load(
        self,
        model_name: str,
        model_dir: str,
        handler: str | None = None,
        gpu_id: int | None = None,
        batch_size: int | None = None,
        envelope: str | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Return TorchServe's Service for the archive unpacked in `model_dir`; raises what loading raised."""
        try:
            service = super().load(
                model_name, model_dir, handler, gpu_id, batch_size, envelope or "none", *args, **kwargs
            )
        except BaseException as error:
            self._report(describe(model_name, model_dir, error))
            raise
        # Objects that torch's import created are permanent: keep full collections from visiting them while serving.
        gc.collect()
        gc.freeze()
        return service

    def _load_handler_file(self, handler: str) -> Any:
        with no_collections():
            return super()._load_handler_file(handler)

    def _load_default_handler(self, handler: str) -> Any:
        """Import one of TorchServe's handlers, which `load` tries where the archive's could not be imported.

        Where TorchServe has none of this name, what was raised first is raised again.
        """
        try:
            with no_collections():
                return super()._load_default_handler(handler)
        except ImportError as error:
            if not (error.name or "").startswith(_THEIR_HANDLERS):
                raise error from None
            first = error.__context__ or error
        raise first

    def _load_default_envelope(self, envelope: str) -> Any:
        def wrap(entry_point: Any) -> HandlerCalls:
            if inspect.iscoroutinefunction(entry_point):
                raise TypeError(NOT_AWAITED)
            self.calls = HandlerCalls(entry_point, envelope, decodes=self._decodes)
            return self.calls

        return wrap


def describe(model_name: str, model_dir: str, error: BaseException) -> LoadFailure:
    """Return type, message and place of an exception raised while the model was loaded."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(os.path.realpath(model_dir))]
    # The message of a SyntaxError has the place, and a handler that is not there has none.
    if not own and frames and not isinstance(error, SyntaxError) and "importlib" not in frames[-1].filename:
        own = list(frames)
    return LoadFailure(
        model=model_name,
        type=type(error).__name__,
        message=with_model_dir(text_of(error), model_dir),
        where=f"{Path(own[-1].filename).name}:{own[-1].lineno} in {own[-1].name}" if own else "",
        missing_module=error.name if isinstance(error, ModuleNotFoundError) else None,
    )
