"""Loads an archive's handler, in the process that is to run it. Needs the `torchserve` wheel.

TorchServe's own loader does it; ours puts `HandlerCalls` between requests and handler, and knows what went wrong.
"""

from __future__ import annotations

import gc
import inspect
import os
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ts.model_loader import TsModelLoader

from data_plane.messages import words_of
from torchserve_compat.values import NOT_AWAITED
from torchserve_compat.worker.calls import HandlerCalls


@dataclass(frozen=True)
class LoadFailure:
    """Why a model could not be loaded: the exception and the place in the user's own code."""

    model: str
    type: str
    message: str
    where: str
    missing_module: str | None

    def document(self) -> dict[str, str | None]:
        """As JSON."""
        return asdict(self)


class HandlerLoader(TsModelLoader):  # type: ignore[misc]  # the wheel has no types
    """`load` returns TorchServe's Service, `calls` runs batches on it; `report` learns why a model cannot be loaded.

    `parses_json` is HandlerCalls'.
    """

    calls: HandlerCalls

    def __init__(self, report: Callable[[LoadFailure], None], *, parses_json: bool = True) -> None:
        self._report = report
        self._parses_json = parses_json

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
        """TorchServe's Service for the archive unpacked in `model_dir`; raises what loading raised."""
        try:
            service = super().load(
                model_name, model_dir, handler, gpu_id, batch_size, envelope or "none", *args, **kwargs
            )
        except BaseException as error:
            self._report(describe(model_name, model_dir, error))
            raise
        # What torch's import made stays for good: a full collection would look at all of it, in the middle of serving.
        gc.collect()
        gc.freeze()
        return service

    def _load_default_envelope(self, envelope: str) -> Any:
        def wrap(entry_point: Any) -> HandlerCalls:
            if inspect.iscoroutinefunction(entry_point):
                raise TypeError(NOT_AWAITED)
            self.calls = HandlerCalls(entry_point, envelope, parses_json=self._parses_json)
            return self.calls

        return wrap


def describe(model_name: str, model_dir: str, error: BaseException) -> LoadFailure:
    """What the user needs to know of `error`."""
    # The loader looks for a handler in two places; what failed in the first is the cause worth naming.
    while isinstance(error, ImportError) and error.__context__ is not None:
        error = error.__context__
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(os.path.realpath(model_dir))] or frames
    return LoadFailure(
        model=model_name,
        type=type(error).__name__,
        message=words_of(error),
        where=f"{Path(own[-1].filename).name}:{own[-1].lineno} in {own[-1].name}" if own else "",
        missing_module=error.name if isinstance(error, ModuleNotFoundError) else None,
    )
