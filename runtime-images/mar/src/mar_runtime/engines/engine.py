"""What every loaded model is, whichever library runs it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

from data_plane.protocol.v2.requests import TensorMetadata
from data_plane.protocol.v2.tensors import Array
from mar_runtime.engines.signature import Signature


@dataclass(frozen=True)
class Engine(ABC):
    """A loaded model."""

    platform: str
    """The v2 protocol's name for format and library."""
    signature: Signature
    maps: frozenset[str] = field(default=frozenset(), kw_only=True)
    """The names of the outputs of which each element is a dictionary."""

    @property
    def inputs(self) -> tuple[TensorMetadata, ...]:
        """Return the inputs of `run`; one of shape () takes one value."""
        return self.signature.inputs

    @property
    def optional(self) -> frozenset[str]:
        """Return the names of the inputs that may be left out."""
        return self.signature.optional

    @property
    def outputs(self) -> tuple[TensorMetadata, ...]:
        """Return the outputs of `run` that tensors can carry; empty if they are unknown until it runs."""
        return self.signature.outputs

    @abstractmethod
    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run the model once; raises UnprocessableInput or InferenceFailed.

        The model may modify writable arrays, so callers must not use them again. Read-only arrays are copied.
        """
