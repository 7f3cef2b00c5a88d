"""Runs inside TorchServe's Python workers: TorchServe's own worker, with its loader replaced by ours.

- Every request that reaches the worker is a frame: a batch that the adapter has formed, whatever the envelope.
- A model that cannot be loaded leaves its reason in a file for the adapter.

This file is copied into TorchServe's home in the adapter's work directory, in the place of `model_service_worker.py`.
Nothing of ours is on the path when it starts: what it needs is beside it, in the folder `imports`.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformer_sdk.handler.loading import LoadFailure

_HOME = Path(__file__).resolve().parents[1]


def main() -> None:
    """TorchServe's worker, until TorchServe ends it."""
    # In the place of this file's folder, whose modules have names that archives use as well (utils, metrics, …).
    # Ahead of the user's archive, which may hold anything; what is not in there comes as TorchServe's path says.
    sys.path[0] = str(_HOME / "imports")
    from ts.model_loader import ModelLoaderFactory

    from transformer_sdk.handler.loading import HandlerLoader

    ModelLoaderFactory.get_model_loader = staticmethod(lambda: HandlerLoader(report))
    runpy.run_module("ts.model_service_worker", run_name="__main__", alter_sys=True)


def report(failure: LoadFailure) -> None:
    """Leave word for the adapter."""
    failures = _HOME.parent / "failures"
    unfinished = failures / f".{os.getpid()}"
    unfinished.write_text(json.dumps(failure.document()))
    unfinished.rename(failures / f"{failure.model}.json")


if __name__ == "__main__":
    main()
