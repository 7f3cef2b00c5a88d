"""Runs inside TorchServe's Python workers: TorchServe's own worker, with its loader replaced by ours.

- Every request that reaches the worker is a frame: a batch that the adapter has formed, whatever the envelope.
- A model that cannot be loaded leaves its reason in a file for the adapter; so does a handler that ends its process.

This file is copied into TorchServe's home in the adapter's work directory, in the place of `model_service_worker.py`.
Nothing of ours is on the path when it starts: what it needs is beside it, in the folder `imports`.
"""

from __future__ import annotations

import json
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
    """Ours, which knows what it has loaded."""

    def __init__(self, loader: HandlerLoader) -> None:
        self._loader = loader
        self.model = self.folder = ""

    def load(self, model: str, folder: str, handler: str, gpu: int | None, batch_size: int, *more: Any) -> Any:
        self.model, self.folder = model, os.path.realpath(folder)
        version = json.loads(Path(folder, "MAR-INF/MANIFEST.json").read_text())["model"].get("modelVersion", "1.0")
        told = json.loads((_HOME.parent / "batch-sizes.json").read_text()).get(model, {}).get(str(version), batch_size)
        return self._loader.load(model, folder, handler, gpu, told, *more)

    def has_raised(self, error: BaseException) -> bool:
        """Whether it comes out of the handler's own code."""
        frames = traceback.extract_tb(error.__traceback__)
        return bool(self.folder) and any(frame.filename.startswith(self.folder) for frame in frames)


def main() -> None:
    """TorchServe's worker, until TorchServe ends it."""
    # In the place of this file's folder, whose modules have names that archives use as well (utils, metrics, …).
    # Ahead of the user's archive, which may hold anything; what is not in there comes as TorchServe's path says.
    sys.path[0] = str(_HOME / "imports")
    from ts.model_loader import ModelLoaderFactory

    from torchserve_compat.worker.loading import HandlerLoader, describe

    # TorchServe passes on what decode_input_request says.
    parses_json = os.environ.get("TS_DECODE_INPUT_REQUEST", "true").strip().lower() == "true"
    loader = Loader(HandlerLoader(report, parses_json=parses_json))
    ModelLoaderFactory.get_model_loader = staticmethod(lambda: loader)
    try:
        runpy.run_module("ts.model_service_worker", run_name="__main__", alter_sys=True)
    except BaseException as error:
        if loader.has_raised(error):
            report(describe(loader.model, loader.folder, error))
        raise


def report(failure: LoadFailure) -> None:
    """Leave word for the adapter."""
    failures = _HOME.parent / "failures"
    unfinished = failures / f".{os.getpid()}"
    unfinished.write_text(json.dumps(failure.document()))
    unfinished.rename(failures / f"{failure.model}.json")


if __name__ == "__main__":
    main()
