"""AOTInductor packages (.pt2): a torch.export program compiled to a shared library, which this process loads."""

from __future__ import annotations

from pathlib import Path

import torch

from mar_runtime.engines.config import NAME, ModelConfig
from mar_runtime.engines.errors import CannotLoad
from mar_runtime.engines.signature import Signature
from mar_runtime.engines.torch_engine import TorchEngine, choose_device, reason


def load(path: Path, config: ModelConfig, device: str, threads: int) -> TorchEngine:
    """Raises CannotLoad. The library takes any memory for an input, so what it expects must be declared."""
    chosen = choose_device(path, device, threads)
    if not config.inputs:
        raise CannotLoad(path, f"an AOTInductor package does not say what it takes; declare inputs in {NAME} beside it")
    try:
        index = -1 if chosen.index is None else chosen.index
        package = torch._inductor.aoti_load_package(str(path), device_index=index)
    except RuntimeError as error:
        raise CannotLoad(path, f"cannot be loaded as an AOTInductor package: {reason(error)}") from error
    compiled_for = package.get_metadata().get("AOTI_DEVICE_KEY", chosen.type)
    if compiled_for == "cpu":
        chosen = torch.device("cpu")
    elif compiled_for != chosen.type:
        raise CannotLoad(path, f"was compiled for {compiled_for}; this server runs models on {chosen.type}")
    signature = Signature(config.inputs, config.outputs)
    return TorchEngine("pytorch_aotinductor", signature, lambda tensors: package(*tensors), chosen)
