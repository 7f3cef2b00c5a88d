"""What the server needs of a loaded model, whichever library runs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from data_plane.protocol.v2.requests import TensorMetadata
from data_plane.protocol.v2.tensors import Array


class Engine(Protocol):
    """A loaded model. The leading axis of every input and output is the batch."""

    @property
    def platform(self) -> str:
        """The protocol's word for format and library."""
        ...

    @property
    def inputs(self) -> tuple[TensorMetadata, ...]:
        """What `run` takes; a fixed leading size is the only batch size that the model knows."""
        ...

    @property
    def outputs(self) -> tuple[TensorMetadata, ...]:
        """What `run` gives; empty where only running the model tells."""
        ...

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """One batch. Raises UnprocessableInput or InferenceFailed.

        The model may write into writable arrays: hand over none that are needed again. Read-only ones are copied.
        """
        ...
