"""How this server runs: what the command line, the environment, the machine and config.properties determine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torchserve_compat.packages.installation import Installer
from torchserve_compat.store.settings import BatchOptions


@dataclass(frozen=True)
class ServingOptions:
    """Options of the command line, which the operator sets from the service."""

    batching: BatchOptions
    max_requests: int = 0  # batches after which a worker is replaced; 0 for never
    max_memory_mib: int = 0


@dataclass(frozen=True)
class RuntimeSettings:
    """Settings that hold for all models."""

    work_dir: Path
    processors: int
    threads: int | None  # of torch, for each worker; None: the server decides
    gpus: int  # that the models may use
    cuda: bool  # whether a GPU is visible, even if `gpus` is 0
    metrics: Path | None  # metric definitions for handlers, instead of TorchServe's own
    withheld: tuple[str, ...]  # environment variables that workers do not get
    installer: Installer
    properties: Mapping[str, str]
    options: ServingOptions

    def is_on(self, setting: str) -> bool:
        """Return whether a setting of config.properties that defaults to true is true."""
        return self.properties.get(setting, "true").strip().lower() == "true"
