"""torch.export programs (.pt2). A program knows the datatypes and shapes that it takes, and checks them itself."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from data_plane.errors import UnprocessableInput
from data_plane.protocol.v2.requests import TensorMetadata
from mar_runtime.engines.config import NAME, ModelConfig
from mar_runtime.engines.errors import CannotLoad
from mar_runtime.engines.signature import Signature
from mar_runtime.engines.torch_engine import DATATYPES, Scalar, TorchEngine, choose_device, reason


def load(path: Path, config: ModelConfig, device: str, threads: int) -> TorchEngine:
    """Raises CannotLoad."""
    chosen = choose_device(path, device, threads)
    if config.inputs:
        raise CannotLoad(path.with_name(NAME), f"{path.name} describes its inputs itself; remove them here")
    program = _read(path)
    if chosen.type != "cpu":
        from torch.export.passes import move_to_device_pass

        program = move_to_device_pass(program, chosen)
    signature = Signature(_inputs(path, program), config.outputs)
    return TorchEngine("pytorch_export", signature, _Forward(program), chosen)


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


def _inputs(path: Path, program: ExportedProgram) -> tuple[TensorMetadata, ...]:
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    found = []
    for name in program.graph_signature.user_inputs:
        value = values.get(str(name))
        if not isinstance(value, torch.Tensor) or value.dtype not in DATATYPES:
            raise CannotLoad(path, f"its input {name} is no tensor that a request can carry; package it as a .mar")
        shape = tuple(size if isinstance(size, int) else -1 for size in value.shape)
        found.append(TensorMetadata(str(name), DATATYPES[value.dtype], shape))
    return tuple(found)


class _Forward:
    def __init__(self, program: ExportedProgram) -> None:
        self._module = program.module()
        self._structure = program.call_spec.in_spec

    def __call__(self, values: Sequence[torch.Tensor | Scalar | None]) -> object:
        positional, named = pytree.tree_unflatten(values, self._structure)
        try:
            return self._module(*positional, **named)
        except AssertionError as error:  # a guard: a size outside of the range that was exported
            raise UnprocessableInput(f"The program was not exported for these inputs: {reason(error)}") from error
