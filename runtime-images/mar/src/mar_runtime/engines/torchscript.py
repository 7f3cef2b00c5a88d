"""TorchScript files, traced or scripted.

torch's own inference passes (`optimize_for_inference`: frozen weights, folded batch norms, fused and pre-packed
convolutions) give up to 2.5 times the throughput on a CPU, and round differently. So the first batch runs both ways:
the optimized model stays only if its results are those of the model as it was saved, to 1e-5 of the largest value.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from data_plane.protocol.v2.requests import TensorMetadata
from mar_runtime.engines.config import ModelConfig
from mar_runtime.engines.errors import CannotLoad
from mar_runtime.engines.signature import Signature
from mar_runtime.engines.torch_engine import TorchEngine, choose_device, named_tensors, reason

TOLERANCE = 1e-5

_TENSOR = "Tensor"
_OPTIONAL_TENSOR = "Optional[Tensor]"

log = logging.getLogger(__name__)


def load(path: Path, config: ModelConfig, device: str, threads: int) -> TorchEngine:
    """Raises CannotLoad."""
    chosen = choose_device(path, device, threads)
    with _deprecations_ignored():
        # Shape-specialised kernels would be compiled anew, tens of milliseconds, in the middle of serving.
        torch.jit.set_fusion_strategy([])
        try:
            saved = torch.jit.load(str(path), map_location=chosen).eval()  # type: ignore[no-untyped-call]
        except (RuntimeError, ValueError) as error:
            raise CannotLoad(path, f"cannot be loaded as TorchScript: {reason(error)}") from error
        signature = _signature(path, saved, config)
        optimized = _optimize(saved) if chosen.type == "cpu" else None
    return TorchEngine("pytorch_torchscript", signature, Forward(saved, optimized), chosen)


@contextmanager
def _deprecations_ignored() -> Iterator[None]:
    """torch wants new models exported otherwise; those that exist are served all the same."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"`torch\.jit\.", FutureWarning)
        warnings.filterwarnings("ignore", r"`torch\.jit\.", DeprecationWarning)
        yield


def _signature(path: Path, module: torch.jit.ScriptModule, config: ModelConfig) -> Signature:
    """forward's tensors; what they hold is known from model-config.yaml only."""
    _, *arguments = module.forward.schema.arguments  # type: ignore[attr-defined]
    types = {argument.name: str(argument.type) for argument in arguments}
    wrong = [
        f"{argument.name}: {types[argument.name]}"
        for argument in arguments
        if types[argument.name] not in (_TENSOR, _OPTIONAL_TENSOR) and not argument.has_default_value()
    ]
    if wrong:
        raise CannotLoad(
            path, f"forward takes what is no tensor ({', '.join(wrong)}); package it with a handler (.mar)"
        )
    names = [name for name, of in types.items() if of in (_TENSOR, _OPTIONAL_TENSOR)]
    optional = frozenset(argument.name for argument in arguments if types[argument.name] == _OPTIONAL_TENSOR)
    if not config.inputs:
        guessed = tuple(TensorMetadata(name, "FP32", (-1,)) for name in names)
        return Signature(guessed, config.outputs, optional, is_guess=True)
    declared = [metadata.name for metadata in config.inputs]
    if set(declared) != set(names):
        raise CannotLoad(path, f"forward takes {', '.join(names)}; model-config.yaml declares {', '.join(declared)}")
    in_order = sorted(config.inputs, key=lambda metadata: names.index(metadata.name))
    return Signature(tuple(in_order), config.outputs, optional)


def _optimize(saved: torch.jit.ScriptModule) -> torch.jit.ScriptModule | None:
    try:
        return torch.jit.optimize_for_inference(saved)
    except (RuntimeError, AttributeError) as error:
        log.info("torch cannot optimize the model, it runs as saved: %s", reason(error))
        return None


@dataclass(slots=True)
class Forward:
    """Runs the model; the first batch decides which of its two forms stays in memory."""

    module: torch.jit.ScriptModule
    candidate: torch.jit.ScriptModule | None

    def __call__(self, tensors: Sequence[torch.Tensor | None]) -> object:
        if self.candidate is None:
            return self.module(*tensors)
        copies = [None if tensor is None else tensor.clone() for tensor in tensors]
        result = self.module(*tensors)
        if _gives(self.candidate, copies, result):
            self.module = self.candidate
        else:
            log.info("torch's optimized form of the model gives other results; it runs as saved")
        self.candidate = None
        return result


def _gives(candidate: torch.jit.ScriptModule, tensors: Sequence[torch.Tensor | None], expected: object) -> bool:
    try:
        found = candidate(*tensors)
    except RuntimeError as error:
        log.info("torch's optimized form of the model fails: %s", reason(error))
        return False
    ours, theirs = dict(named_tensors(expected)), dict(named_tensors(found))
    return ours.keys() == theirs.keys() and all(_is_close(ours[name], theirs[name]) for name in ours)


def _is_close(expected: torch.Tensor, found: torch.Tensor) -> bool:
    """Rounding is relative to the largest values, of which small results may be differences."""
    if expected.shape != found.shape or expected.dtype != found.dtype:
        return False
    largest = expected.abs().max().item() if expected.numel() and expected.is_floating_point() else 0
    return torch.allclose(found, expected, rtol=0, atol=TOLERANCE * largest, equal_nan=True)
