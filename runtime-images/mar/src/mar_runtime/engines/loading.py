"""Loads a file into an engine. Imports torch or onnxruntime only when the file needs it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from mar_runtime.engines.config import ModelConfig, read_config
from mar_runtime.engines.engine import Engine
from mar_runtime.engines.errors import CannotLoad
from mar_runtime.engines.formats import Format, detect


class _Loader(Protocol):
    def load(self, path: Path, config: ModelConfig, device: str, threads: int) -> Engine: ...


_LOADERS = {
    Format.TORCHSCRIPT: "torchscript",
    Format.EXPORTED: "exported",
    Format.AOTINDUCTOR: "aotinductor",
    Format.ONNX: "onnx",
}


def load_engine(path: Path, device: str, threads: int) -> Engine:
    """The model in `path`, on `device` ("cpu", "cuda", "cuda:1"); raises CannotLoad.

    `threads` is how many one run may use; torch has one such setting for the whole process.
    """
    file_format = detect(path)
    config = read_config(path)
    module = f"mar_runtime.engines.{_LOADERS[file_format]}"
    try:
        loader = cast(_Loader, import_module(module))
    except ModuleNotFoundError as error:
        raise CannotLoad(path, f"{file_format.value} needs the package {error.name}, which is not installed") from error
    return loader.load(path, config, device, threads)
