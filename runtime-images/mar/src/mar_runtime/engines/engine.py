"""The interface of a loaded model, whichever library runs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from data_plane.protocol.v2.requests import TensorMetadata
from data_plane.protocol.v2.tensors import Array


class Engine(Protocol):
    """A loaded model. The leading axis of every input and output is the batch."""

    @property
    def platform(self) -> str:
        """Return the v2 protocol's name for format and library."""
        ...

    @property
    def inputs(self) -> tuple[TensorMetadata, ...]:
        """Return the inputs of `run`; a fixed leading size is the only batch size that the model accepts."""
        ...

    @property
    def outputs(self) -> tuple[TensorMetadata, ...]:
        """Return the outputs of `run`; empty if they are unknown until it runs."""
        ...

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run one batch; raises UnprocessableInput or InferenceFailed.

        The model may modify writable arrays, so callers must not use them again. Read-only arrays are copied.
        """
        ...
