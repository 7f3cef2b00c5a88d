"""The interface of a loaded model, whichever library runs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from data_plane.protocol.v2.requests import TensorMetadata
from data_plane.protocol.v2.tensors import Array


class Engine(Protocol):
    """A loaded model."""

    @property
    def platform(self) -> str:
        """Return the v2 protocol's name for format and library."""
        ...

    @property
    def inputs(self) -> tuple[TensorMetadata, ...]:
        """Return the inputs of `run`; one of shape () takes one value."""
        ...

    @property
    def optional(self) -> frozenset[str]:
        """Return the names of the inputs that may be left out."""
        ...

    @property
    def outputs(self) -> tuple[TensorMetadata, ...]:
        """Return the outputs of `run` that tensors can carry; empty if they are unknown until it runs."""
        ...

    @property
    def maps(self) -> frozenset[str]:
        """Return the names of the outputs of which each element is a dictionary."""
        ...

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run the model once; raises UnprocessableInput or InferenceFailed.

        The model may modify writable arrays, so callers must not use them again. Read-only arrays are copied.
        """
        ...
