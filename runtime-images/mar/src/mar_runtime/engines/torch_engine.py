"""Runs a torch callable on numpy arrays; the same for TorchScript, torch.export and AOTInductor."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from data_plane import gpu
from data_plane.errors import InferenceFailed, ServingError, UnprocessableInput
from data_plane.protocol.v2 import bfloat16, datatypes
from data_plane.protocol.v2.requests import TensorMetadata
from data_plane.protocol.v2.tensors import Array
from mar_runtime.engines.engine import Engine
from mar_runtime.engines.errors import CannotLoad, GpuLost
from mar_runtime.engines.signature import check_outputs

DATATYPES = {getattr(torch, each.torch): each.name for each in datatypes.DATATYPES.values() if each.torch}

Scalar = int | float | bool | str
SCALARS: Mapping[type[Scalar], str] = {int: "INT64", float: "FP64", bool: "BOOL", str: "BYTES"}
"""The datatype of each kind of value of Python."""

# Takes the inputs in the model's order, None for a missing optional one; returns what `forward` returns.
Forward = Callable[[Sequence[torch.Tensor | Scalar | None]], object]

# numpy's kinds of arrays that hold such a value.
_KINDS: Mapping[type[Scalar], str] = {int: "iu", float: "fiu", bool: "b", str: "O"}
log = logging.getLogger(__name__)

_LAST_ERROR = re.compile(r"^[\w.]*Error: (.+)", re.MULTILINE)


@dataclass(frozen=True)
class TorchEngine(Engine):
    """A callable with a signature, on a device."""

    forward: Forward
    device: torch.device
    scalars: Mapping[str, type[Scalar]] = field(default_factory=dict)
    """The inputs that `forward` takes as a value of Python."""

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        arrays = self.signature.accept(inputs)
        try:
            results = self._run(arrays)
        except Exception as error:
            raise _failure(error) from error
        check_outputs(results)
        return results

    @torch.inference_mode()
    def _run(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        values = [
            self._value(metadata, arrays[metadata.name]) if metadata.name in arrays else None
            for metadata in self.inputs
        ]
        outputs = self._named(self.forward(values))
        return {name: to_array(name, tensor) for name, tensor in outputs.items()}

    def _value(self, metadata: TensorMetadata, array: Array) -> torch.Tensor | Scalar:
        if metadata.name in self.scalars:
            return to_scalar(metadata.name, array, self.scalars[metadata.name])
        tensor = to_tensor(metadata.name, array, self.device)
        return tensor.bfloat16() if metadata.datatype == "BF16" else tensor  # numpy represents it as FP32

    def _named(self, result: object) -> dict[str, torch.Tensor]:
        """Return the declared outputs by name, or in order if `forward` returns no dictionary; by default, all."""
        tensors = dict(named_tensors(result))
        declared = [metadata.name for metadata in self.outputs]
        if not declared:
            return tensors
        by_name = tensors if isinstance(result, Mapping) else dict(zip(declared, tensors.values(), strict=False))
        if missing := [name for name in declared if name not in by_name]:
            raise InferenceFailed(
                f"The model gives {', '.join(tensors)}; model-config.yaml declares more: {', '.join(missing)}."
            )
        return {name: by_name[name] for name in declared}


def _failure(error: Exception) -> ServingError:
    """Return what the client gets: memory that ran out and a lost GPU come before all else."""
    cause = error.__cause__ or error
    if gpu.is_out_of_memory(cause):
        return InferenceFailed(f"Out of memory: {reason(cause)}", 507)
    if gpu.is_lost():
        return GpuLost(f"The model failed: {gpu.why_lost(cause)}")
    return error if isinstance(error, ServingError) else InferenceFailed(f"The model failed: {reason(error)}")


def to_tensor(name: str, array: Array, device: torch.device) -> torch.Tensor:
    """Return a tensor that shares the memory of a writable array; a read-only array is copied."""
    try:
        tensor = torch.from_numpy(array if array.flags.carray else array.copy())
    except (TypeError, ValueError) as error:
        kind = "BYTES" if array.dtype == object else array.dtype
        raise UnprocessableInput(f'Input "{name}" is {kind}; torch has no such tensors, send numbers.') from error
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)


def to_scalar(name: str, array: Array, kind: type[Scalar]) -> Scalar:
    """Return the only element of an array as a value of Python; raises UnprocessableInput."""
    if array.size != 1 or array.dtype.kind not in _KINDS[kind]:
        raise UnprocessableInput(
            f'Input "{name}" is {array.dtype} of shape {list(array.shape)}; the model takes one {kind.__name__}.'
        )
    value = array.item()
    try:
        return value.decode() if isinstance(value, bytes) else kind(value)
    except UnicodeDecodeError as error:
        raise UnprocessableInput(f'Input "{name}" holds bytes that are not UTF-8; the model takes text.') from error


def to_array(name: str, tensor: torch.Tensor) -> Array:
    """Return the tensor as an array; raises InferenceFailed if the protocol has no datatype for it."""
    if tensor.dtype is torch.bfloat16:
        return to_array(name, tensor.float()).view(bfloat16.Numbers)
    try:
        return tensor.numpy(force=True)
    except TypeError as error:
        raise InferenceFailed(
            f'Output "{name}" is of {tensor.dtype}, which the protocol has no datatype for.'
        ) from error


def named_tensors(result: object, name: str = "output") -> Iterator[tuple[str, torch.Tensor]]:
    """Yield all tensors of a nested result, named by keys and indices; a single tensor is ``output-0``."""
    if isinstance(result, torch.Tensor):
        yield (f"{name}-0" if name == "output" else name), result
    elif isinstance(result, bool | int | float):
        dtype = torch.float64 if isinstance(result, float) else None  # a float of Python has 64 bits
        yield from named_tensors(torch.tensor(result, dtype=dtype), name)
    elif isinstance(result, Mapping):
        for key, value in result.items():
            yield from named_tensors(value, str(key) if name == "output" else f"{name}-{key}")
    elif isinstance(result, list | tuple):
        for index, value in enumerate(result):
            yield from named_tensors(value, f"{name}-{index}")
    else:
        raise InferenceFailed(
            f"The model's {name} is a {type(result).__name__}, not a tensor; it needs a handler (.mar)."
        )


def choose_device(path: Path, device: str, threads: int) -> torch.device:
    """Return the device, and set the number of torch's threads; raises CannotLoad for a missing device.

    It is the CPU where torch was built for that alone: whoever installed it has decided.
    """
    torch.set_num_threads(threads)
    if device != "cpu" and torch.version.cuda is None:
        log.warning("%s runs on the CPU: this torch, %s, cannot use %s", path.name, torch.__version__, device)
        device = "cpu"
    try:
        chosen = torch.device(device)
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError) as error:
        raise CannotLoad(path, f"cannot be put on the device {device!r}: {reason(error)}") from error
    return chosen


def reason(error: BaseException) -> str:
    """Return the main line of a message that may contain a traceback of compiled code."""
    text = str(error).strip()
    inner = _LAST_ERROR.findall(text)
    if inner:
        return str(inner[-1])
    return text.partition("\n")[0] or type(error).__name__
