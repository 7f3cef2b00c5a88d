"""model-config.yaml: the settings of a model file.

    inputs:
      - {name: image, datatype: FP32, shape: [-1, 1, 28, 28]}
    outputs:
      - {name: scores, datatype: FP32, shape: [-1, 10]}
    batchSize: 32        # most instances in one run
    maxBatchDelay: 5     # accepted and ignored: no request waits for others

All settings are optional; a size of -1 means any, the shape [] one value. The last two have TorchServe's names.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
import yaml

from data_plane.protocol.v2.datatypes import DATATYPES
from data_plane.protocol.v2.requests import TensorMetadata
from mar_runtime.engines.errors import CannotLoad

NAME = "model-config.yaml"

_Size = Annotated[int, msgspec.Meta(ge=-1)]


class _Tensor(msgspec.Struct, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(min_length=1)]
    datatype: str
    shape: tuple[_Size, ...]

    def __post_init__(self) -> None:
        if self.datatype not in DATATYPES:
            raise ValueError(f"there is no datatype {self.datatype!r}; use one of {', '.join(DATATYPES)}")


class _ConfigFile(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    inputs: list[_Tensor] = []
    outputs: list[_Tensor] = []
    batch_size: Annotated[int, msgspec.Meta(ge=1)] | None = None
    max_batch_delay: Annotated[int, msgspec.Meta(ge=0)] | None = None


# msgspec prepares a type at its first use, and two threads that do this at the same time crash. Models load in threads.
msgspec.json.Decoder(_ConfigFile)


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The settings; empty or None where the server decides."""

    inputs: tuple[TensorMetadata, ...] = ()
    outputs: tuple[TensorMetadata, ...] = ()
    batch_size: int | None = None


def read_config(model: Path) -> ModelConfig:
    """Read the settings beside the model file; raises CannotLoad."""
    path = model.with_name(NAME)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ModelConfig()
    try:
        document = msgspec.convert(yaml.safe_load(text) or {}, _ConfigFile)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise CannotLoad(path, str(error)) from error
    return ModelConfig(_metadata(document.inputs), _metadata(document.outputs), document.batch_size)


def _metadata(tensors: list[_Tensor]) -> tuple[TensorMetadata, ...]:
    return tuple(TensorMetadata(tensor.name, tensor.datatype, tensor.shape) for tensor in tensors)
