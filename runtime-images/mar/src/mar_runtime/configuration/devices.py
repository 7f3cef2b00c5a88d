"""On which GPUs an archive's workers run: those that its YAML names, or whose turn it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from data_plane.model_server.errors import ConfigurationError


def choose(archive: str, yaml_config: Mapping[str, Any], gpus: int) -> tuple[int, ...] | None:
    """Of `gpus`, those that its workers take in turn, () for the CPU; None for any. Raises ConfigurationError.

    As in TorchServe, only the YAML is asked, and `deviceType: gpu` takes the CPU where there is no GPU.
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
    """Workers of all models take the server's GPUs in turn, as in TorchServe: else all would begin with the first."""

    def __init__(self, gpus: int) -> None:
        self._gpus = gpus
        self._next = 0

    def take(self, workers: int) -> tuple[int, ...]:
        """The GPUs of a model, beginning with that of its first worker."""
        first = self._next
        self._next = (first + workers) % self._gpus
        return tuple((first + index) % self._gpus for index in range(self._gpus))
