"""The GPUs for an archive's workers: those that its YAML names, or the next ones in turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from data_plane.model_server.errors import ConfigurationError


def choose(archive: str, yaml_config: Mapping[str, Any], gpus: int) -> tuple[int, ...] | None:
    """Return the GPUs for an archive's workers, () for the CPU, or None for any; raises ConfigurationError.

    As in TorchServe, only the archive's YAML decides, and `deviceType: gpu` uses the CPU if there is no GPU.
    """
    if not gpus or str(yaml_config.get("deviceType") or "").lower() == "cpu":
        return ()
    wanted = yaml_config.get("deviceIds")
    if not wanted:
        return None
    if not isinstance(wanted, list) or not all(type(one) is int and 0 <= one < gpus for one in wanted):
        there = f"the GPUs here are {', '.join(map(str, range(gpus)))}"
        raise ConfigurationError(f"deviceIds of {archive} is {wanted!r}; write a list of numbers, {there}.")
    return tuple(wanted)


class GpuTurns:
    """Gives the server's GPUs to the workers of all models in turn, as TorchServe does."""

    def __init__(self, gpus: int) -> None:
        self._gpus = gpus
        self._next = 0

    def take(self, workers: int) -> tuple[int, ...]:
        """Return the GPUs for a model, in the order of its workers."""
        first = self._next
        self._next = (first + workers) % self._gpus
        return tuple((first + index) % self._gpus for index in range(self._gpus))
