"""The main module of TorchServe's Python workers: TorchServe's own worker with our loader.

- Every request to the worker is a frame: a batch that the adapter has formed.
- The worker reports to the adapter, in a file, why a model could not be loaded or why its handler ended the process.

This file is copied to TorchServe's home in the adapter's work directory, where it replaces `model_service_worker.py`.
Our packages are not on the path when it starts; the folder `imports` beside it links to them.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import runpy
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchserve_compat.worker.loading import HandlerLoader, LoadFailure

_HOME = Path(__file__).resolve().parents[1]


class Loader:
    """Our loader, which remembers the loaded model."""

    def __init__(self, loader: HandlerLoader) -> None:
        self._loader = loader
        self.model = self.folder = ""

    def load(self, model: str, folder: str, handler: str, gpu: int | None, batch_size: int, *more: Any) -> Any:
        self.model, self.folder = model, os.path.realpath(folder)
        _begin_tracebacks_with(self.folder)
        version = json.loads(Path(folder, "MAR-INF/MANIFEST.json").read_text())["model"].get("modelVersion", "1.0")
        stated = (
            json.loads((_HOME.parent / "batch-sizes.json").read_text()).get(model, {}).get(str(version), batch_size)
        )
        return self._loader.load(model, folder, handler, gpu, stated, *more)

    def has_raised(self, error: BaseException) -> bool:
        """Return whether the exception comes from the handler's own code."""
        frames = traceback.extract_tb(error.__traceback__)
        return bool(self.folder) and any(frame.filename.startswith(self.folder) for frame in frames)


def _begin_tracebacks_with(folder: str) -> None:
    """Log tracebacks from the first line in this folder on; whole where the server logs DEBUG."""
    from data_plane.log_lines import IndentingFormatter, set_log_level

    if os.environ.get("SERVER_LOG_LEVEL") == "DEBUG":
        set_log_level(logging.DEBUG)
    for handler in logging.getLogger().handlers:  # TorchServe's, which writes a message and nothing else
        handler.setFormatter(IndentingFormatter("%(message)s", folder=folder))


def main() -> None:
    """Run TorchServe's worker until TorchServe ends it."""
    # This replaces this file's folder, whose modules have names that archives use, too (utils, metrics, …). It comes
    # before the user's archive, which may contain modules of any name.
    sys.path[0] = str(_HOME / "imports")
    gc.disable()  # importing torch creates hundreds of thousands of objects and little garbage
    from ts.model_loader import ModelLoaderFactory

    from torchserve_compat.worker.loading import HandlerLoader, describe

    gc.enable()
    # TorchServe sets this variable from decode_input_request.
    decodes = os.environ.get("TS_DECODE_INPUT_REQUEST", "true").strip().lower() == "true"
    loader = Loader(HandlerLoader(report, decodes=decodes))
    ModelLoaderFactory.get_model_loader = staticmethod(lambda: loader)
    try:
        runpy.run_module("ts.model_service_worker", run_name="__main__", alter_sys=True)
    except BaseException as error:
        if loader.has_raised(error):
            report(describe(loader.model, loader.folder, error))
        raise


def report(failure: LoadFailure) -> None:
    """Write a report for the adapter."""
    failures = _HOME.parent / "failures"
    unfinished = failures / f".{os.getpid()}"
    unfinished.write_text(json.dumps(failure.document()))
    unfinished.rename(failures / f"{failure.model}.json")


if __name__ == "__main__":
    main()
