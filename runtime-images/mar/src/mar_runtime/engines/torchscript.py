"""TorchScript files, traced or scripted.

torch's own inference passes (`optimize_for_inference`: frozen weights, folded batch norms, fused and pre-packed
convolutions) give up to 2.5 times the throughput on a CPU, and round differently. So the first batch runs both ways:
the optimized model stays only if its results are those of the model as it was saved, to 1e-5 of the largest value.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from data_plane.protocol.v2.requests import TensorMetadata
from mar_runtime.engines.config import ModelConfig
from mar_runtime.engines.errors import CannotLoad
from mar_runtime.engines.signature import Signature
from mar_runtime.engines.torch_engine import SCALARS, Scalar, TorchEngine, choose_device, named_tensors, reason

TOLERANCE = 1e-5

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
        arguments = _arguments(path, saved)
        signature = _signature(path, arguments, config)
        optimized = _optimize(saved) if chosen.type == "cpu" else None
    names = tuple(metadata.name for metadata in signature.inputs)
    forward = Forward(saved, optimized, tuple(saved.buffers()))
    call = _Call(names, {one.name: one.default for one in arguments}, forward)
    scalars = {one.name: one.scalar for one in arguments if one.scalar}
    return TorchEngine("pytorch_torchscript", signature, call, chosen, scalars)


@dataclass(frozen=True, slots=True)
class _Argument:
    """An argument of forward. It has no datatype if no request can give it."""

    name: str
    datatype: str
    scalar: type[Scalar] | None
    is_optional: bool
    default: Any


@contextmanager
def _deprecations_ignored() -> Iterator[None]:
    """torch wants new models exported otherwise; those that exist are served all the same."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"`torch\.jit\.", FutureWarning)
        warnings.filterwarnings("ignore", r"`torch\.jit\.", DeprecationWarning)
        yield


def _arguments(path: Path, module: torch.jit.ScriptModule) -> list[_Argument]:
    """The arguments of forward; raises CannotLoad for one that it needs and that no request can give."""
    _, *described = module.forward.schema.arguments  # type: ignore[attr-defined]
    found = [_argument(one.name, str(one.type), one.has_default_value(), one.default_value) for one in described]
    wrong = [
        f"{one.name}: {one.type}" for one, read in zip(described, found, strict=True)
        if not read.datatype and not read.is_optional
    ]  # fmt: skip
    if wrong:
        raise CannotLoad(
            path, f"forward takes what no tensor holds ({', '.join(wrong)}); package it with a handler (.mar)"
        )
    return found


def _argument(name: str, kind: str, has_default: bool, default: Any) -> _Argument:
    inner = kind.removeprefix("Optional[").removesuffix("]") if kind.startswith("Optional[") else kind
    if inner == "Tensor":
        return _Argument(name, "FP32", None, inner != kind, default)
    scalar = next((kind for kind in SCALARS if kind.__name__ == inner), None)
    return _Argument(name, SCALARS[scalar] if scalar else "", scalar, has_default or inner != kind, default)


def _signature(path: Path, arguments: Sequence[_Argument], config: ModelConfig) -> Signature:
    """What forward's tensors hold is known from model-config.yaml only."""
    served = [one for one in arguments if one.datatype]
    optional = frozenset(one.name for one in served if one.is_optional)
    if not config.inputs:
        guessed = tuple(TensorMetadata(one.name, one.datatype, () if one.scalar else (-1,)) for one in served)
        return Signature(guessed, config.outputs, optional, is_guess=True)
    names, declared = [one.name for one in served], [metadata.name for metadata in config.inputs]
    needed = [one.name for one in served if not (one.scalar and one.is_optional)]
    if not set(needed) <= set(declared) <= set(names):
        raise CannotLoad(path, f"forward takes {', '.join(names)}; model-config.yaml declares {', '.join(declared)}")
    in_order = sorted(config.inputs, key=lambda metadata: names.index(metadata.name))
    return Signature(tuple(in_order), config.outputs, optional)


def _optimize(saved: torch.jit.ScriptModule) -> torch.jit.ScriptModule | None:
    try:
        return torch.jit.optimize_for_inference(saved)
    except (RuntimeError, AttributeError) as error:
        log.info("torch cannot optimize the model, it runs as saved: %s", reason(error))
        return None


@dataclass(frozen=True, slots=True)
class _Call:
    """Calls forward with all of its arguments, the default for each that no request can give or that was left out."""

    names: tuple[str, ...]
    defaults: Mapping[str, Any]
    forward: Forward

    def __call__(self, values: Sequence[torch.Tensor | Scalar | None]) -> object:
        given = {name: value for name, value in zip(self.names, values, strict=True) if value is not None}
        return self.forward(list({**self.defaults, **given}.values()))


@dataclass(slots=True)
class Forward:
    """Runs the model; the first batch decides which of its two forms stays in memory."""

    module: torch.jit.ScriptModule
    candidate: torch.jit.ScriptModule | None
    buffers: Sequence[torch.Tensor] = ()  # both forms share their memory

    def __call__(self, values: Sequence[Any]) -> object:
        if self.candidate is None:
            return self.module(*values)
        copies = [value.clone() if isinstance(value, torch.Tensor) else value for value in values]
        before = self._versions()
        result = self.module(*values)
        if self._versions() != before:
            log.info("the model writes into its own buffers; it runs as saved")
        elif _gives(self.candidate, copies, result):
            self.module = self.candidate
        else:
            log.info("torch's optimized form of the model gives other results; it runs as saved")
        self.candidate = None
        return result

    def _versions(self) -> list[int]:
        """Return how often each buffer was written to."""
        return [buffer._version for buffer in self.buffers]


def _gives(candidate: torch.jit.ScriptModule, values: Sequence[Any], expected: object) -> bool:
    try:
        found = candidate(*values)
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
