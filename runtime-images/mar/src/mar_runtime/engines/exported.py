"""torch.export programs (.pt2). A program knows the datatypes and shapes that it takes, and checks them itself."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, InputSpec, SymIntArgument
from torch.utils import _pytree as pytree

from data_plane.errors import UnprocessableInput
from data_plane.protocol.v2.requests import TensorMetadata
from mar_runtime.engines.config import NAME, ModelConfig
from mar_runtime.engines.errors import CannotLoad
from mar_runtime.engines.signature import Signature
from mar_runtime.engines.torch_engine import DATATYPES, SCALARS, Scalar, TorchEngine, choose_device, reason

USER_INPUT = InputKind.USER_INPUT


def load(path: Path, config: ModelConfig, device: str, threads: int) -> TorchEngine:
    """Raises CannotLoad."""
    chosen = choose_device(path, device, threads)
    if config.inputs:
        raise CannotLoad(path.with_name(NAME), f"{path.name} describes its inputs itself; remove them here")
    program = _read(path)
    if chosen.type != "cpu":
        from torch.export.passes import move_to_device_pass

        program = move_to_device_pass(program, chosen)
    taken = [_input(path, program, spec) for spec in program.graph_signature.input_specs if spec.kind is USER_INPUT]
    inputs = tuple(one.metadata for one in taken if one.metadata)
    optional = frozenset(one.metadata.name for one in taken if one.metadata and one.is_fixed)
    scalars = {one.metadata.name: one.scalar for one in taken if one.metadata and one.scalar}
    forward = _Forward(program, taken)
    return TorchEngine("pytorch_export", Signature(inputs, config.outputs, optional), forward, chosen, scalars)


@dataclass(frozen=True, slots=True)
class _Input:
    """What a program takes in one place. It has no metadata if no request can give it."""

    metadata: TensorMetadata | None
    scalar: type[Scalar] | None = None
    is_fixed: bool = False
    value: Any = None
    """The only value that the program was exported for, if it is fixed."""


def _read(path: Path) -> ExportedProgram:
    # torch logs a traceback for each older form of the file that it tries.
    torch_log = logging.getLogger("torch.export")
    level = torch_log.level
    torch_log.setLevel(logging.CRITICAL)
    try:
        return torch.export.load(str(path))
    except Exception as error:
        raise CannotLoad(path, f"cannot be loaded as a torch.export program: {reason(error)}") from error
    finally:
        torch_log.setLevel(level)


def _input(path: Path, program: ExportedProgram, spec: InputSpec) -> _Input:
    name = spec.arg.name
    if isinstance(spec.arg, ConstantArgument):
        scalar = next((kind for kind in SCALARS if type(spec.arg.value) is kind), None)
        metadata = TensorMetadata(name, SCALARS[scalar], ()) if scalar else None
        return _Input(metadata, scalar, is_fixed=True, value=spec.arg.value)
    if isinstance(spec.arg, SymIntArgument):
        return _Input(TensorMetadata(name, "INT64", ()), int)
    value = next(node.meta.get("val") for node in program.graph.nodes if node.name == name)
    if not isinstance(value, torch.Tensor) or value.dtype not in DATATYPES:
        raise CannotLoad(path, f"its input {name} is not a tensor that a request can carry; package it as a .mar")
    shape = tuple(size if isinstance(size, int) else -1 for size in value.shape)
    return _Input(TensorMetadata(name, DATATYPES[value.dtype], shape))


class _Forward:
    def __init__(self, program: ExportedProgram, taken: Sequence[_Input]) -> None:
        self._module = program.module()
        self._structure = program.call_spec.in_spec
        self._taken = taken

    def __call__(self, values: Sequence[torch.Tensor | Scalar | None]) -> object:
        given = iter(values)
        every = [one.value if one.metadata is None or (value := next(given)) is None else value for one in self._taken]
        positional, named = pytree.tree_unflatten(every, self._structure)
        try:
            return self._module(*positional, **named)
        except AssertionError as error:  # a guard: a size outside of the range that was exported
            raise UnprocessableInput(f"The program was not exported for these inputs: {reason(error)}") from error
