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
from torch.utils import _pytree as pytree

from data_plane.errors import InferenceFailed, ServingError, UnprocessableInput
from data_plane.protocol.v2.requests import TensorMetadata
from mar_runtime.engines.arguments import Argument, Leaf, arguments
from mar_runtime.engines.config import ModelConfig
from mar_runtime.engines.errors import CannotLoad
from mar_runtime.engines.signature import Signature
from mar_runtime.engines.torch_engine import (
    DATATYPES,
    SCALARS,
    Scalar,
    TorchEngine,
    choose_device,
    named_tensors,
    reason,
)
from model_archive.traced import Example, examples

TOLERANCE = 1e-5
_UNKNOWN = "The file does not say what it takes; if it is something else, describe it in model-config.yaml."

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
        taken, traced = arguments(saved), examples(path)
        signature = _signature(path, taken, traced, config)
        optimized = _optimize(saved) if chosen.type == "cpu" else None
    names = tuple(metadata.name for metadata in signature.inputs)
    leaves = [leaf for one in taken for leaf in one.leaves]
    example = {leaf.name: one for leaf, one in zip(leaves, traced, strict=True)} if len(traced) == len(leaves) else {}
    unknown = _UNKNOWN if signature.is_guess and not traced else ""
    call = _Call(names, taken, Forward(saved, optimized, tuple(saved.buffers())), example, unknown)
    scalars = {leaf.name: leaf.scalar for leaf in leaves if leaf.scalar}
    return TorchEngine("pytorch_torchscript", signature, call, chosen, scalars)


@contextmanager
def _deprecations_ignored() -> Iterator[None]:
    """torch wants new models exported otherwise; those that exist are served all the same."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"`torch\.jit\.", FutureWarning)
        warnings.filterwarnings("ignore", r"`torch\.jit\.", DeprecationWarning)
        yield


def _signature(path: Path, taken: Sequence[Argument], traced: Sequence[Example], config: ModelConfig) -> Signature:
    """What forward's tensors hold is known from model-config.yaml, or guessed from the example. Raises CannotLoad."""
    if wrong := ", ".join(f"{one.name}: {one.type}" for one in taken if not one.leaves and not one.is_optional):
        raise CannotLoad(path, f"forward takes what no tensor holds ({wrong}); package it with a handler (.mar)")
    leaves = [leaf for one in taken for leaf in one.leaves]
    optional = frozenset(leaf.name for one in taken if one.is_optional for leaf in one.leaves)
    if not config.inputs:
        return Signature(tuple(_guess(leaves, traced)), config.outputs, optional, is_guess=True)
    names, declared = [leaf.name for leaf in leaves], [metadata.name for metadata in config.inputs]
    needed = [leaf.name for leaf in leaves if not (leaf.scalar and leaf.name in optional)]
    if not set(needed) <= set(declared) <= set(names):
        raise CannotLoad(path, f"forward takes {', '.join(names)}; model-config.yaml declares {', '.join(declared)}")
    in_order = sorted(config.inputs, key=lambda metadata: names.index(metadata.name))
    return Signature(tuple(in_order), config.outputs, optional)


def _guess(leaves: Sequence[Leaf], given: Sequence[Example]) -> Iterator[TensorMetadata]:
    """Yield what tensors of any number of rows have, like those of the example, if it has as many rows of each."""
    rows = {example.shape[:1] for example in given}
    fits = len(given) == len(leaves) and len(rows) == 1 and () not in rows
    for index, leaf in enumerate(leaves):
        if leaf.scalar:
            yield TensorMetadata(leaf.name, SCALARS[leaf.scalar], ())
        elif fits:
            yield TensorMetadata(leaf.name, given[index].datatype, (-1, *given[index].shape[1:]))
        else:
            yield TensorMetadata(leaf.name, "FP32", (-1,))


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
    arguments: Sequence[Argument]
    forward: Forward
    example: Mapping[str, Example]
    """What the model was traced with; empty if it was not."""
    unknown: str = ""
    """That nothing says what the inputs hold, if so."""

    def __call__(self, values: Sequence[torch.Tensor | Scalar | None]) -> object:
        given = {name: value for name, value in zip(self.names, values, strict=True) if value is not None}
        passed = [one.value(given) for one in self.arguments]
        try:
            return self.forward(passed)
        except Exception as error:
            raise self._failure(given, reason(error)) from error

    def _failure(self, given: Mapping[str, torch.Tensor | Scalar], why: str) -> ServingError:
        """Return the error of a run. A traced model takes other inputs than its example, so only a run can tell."""
        sent = {name: _example_of(value) for name, value in given.items() if isinstance(value, torch.Tensor)}
        pairs = [(name, one, self.example[name]) for name, one in sent.items() if name in self.example]
        said = " ".join(
            f'Input "{name}" is {_described(one)}; the model was traced with {_described(traced)}.'
            for name, one, traced in pairs
            if _kind(one) != _kind(traced) or one.shape[1:] != traced.shape[1:]
        )
        if not self.example:
            shown = [f'Input "{name}" is {_described(one)}.' for name, one in sent.items()]
            said = " ".join([*shown, self.unknown] if shown and self.unknown else shown)
        if any(_kind(one) != _kind(traced) for _, one, traced in pairs):
            return UnprocessableInput(f"{said} It failed: {why}")
        return InferenceFailed(f"The model failed: {why.rstrip('.')}. {said}" if said else f"The model failed: {why}")


def _example_of(value: torch.Tensor) -> Example:
    return Example(DATATYPES.get(value.dtype, str(value.dtype)), tuple(value.shape))


def _kind(tensor: Example) -> tuple[str, int]:
    """Return what few models take other than they were traced with: the datatype and the number of dimensions."""
    return tensor.datatype, len(tensor.shape)


def _described(tensor: Example) -> str:
    return f"{tensor.datatype} of shape {list(tensor.shape)}"


@dataclass(slots=True)
class Forward:
    """Runs the model; the first batch decides which of its two forms stays in memory."""

    module: torch.jit.ScriptModule
    candidate: torch.jit.ScriptModule | None
    buffers: Sequence[torch.Tensor] = ()  # both forms share their memory

    def __call__(self, values: Sequence[Any]) -> object:
        if self.candidate is None:
            return self.module(*values)
        copies = pytree.tree_map_only(torch.Tensor, torch.Tensor.clone, list(values))
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
