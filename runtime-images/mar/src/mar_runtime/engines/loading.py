"""Loads a file into an engine. Imports torch or onnxruntime only when the file needs it."""

from __future__ import annotations

import logging
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Protocol, cast

from data_plane.garbage import no_collections
from mar_runtime.engines.config import ModelConfig, read_config
from mar_runtime.engines.engine import Engine
from mar_runtime.engines.errors import CannotLoad
from mar_runtime.engines.formats import detect
from model_archive.formats import Format


class _Loader(Protocol):
    def load(self, path: Path, config: ModelConfig, device: str, threads: int) -> Engine: ...


_LOADERS = {
    Format.TORCHSCRIPT: "torchscript",
    Format.EXPORTED: "exported",
    Format.AOTINDUCTOR: "aotinductor",
    Format.ONNX: "onnx",
}


def needs_package(what: str, package: str) -> str:
    """Return that something cannot be served without a package that is not installed, and which runtime has it."""
    return f"{what} needs the package {package}, which is not installed; the runtime isvc-mar has it"


def load_engine(path: Path, device: str, threads: int) -> Engine:
    """The model in `path`, on `device` ("cpu", "cuda", "cuda:1"); raises CannotLoad.

    `threads` is how many one run may use; torch has one such setting for the whole process.
    """
    file_format = detect(path)
    config = read_config(path)
    module = f"mar_runtime.engines.{_LOADERS[file_format]}"
    if device == "cpu":
        # As with torch's build for CPUs, which has no triton: that reports leaks when the server ends.
        sys.modules.setdefault("triton", cast(ModuleType, None))
        logging.getLogger("torch.utils.flop_counter").setLevel(logging.ERROR)  # warns that it is missing
    try:
        with no_collections():
            loader = cast(_Loader, import_module(module))
    except ModuleNotFoundError as error:
        raise CannotLoad(path, needs_package(file_format.value, str(error.name))) from error
    return loader.load(path, config, device, threads)
