"""The parameters for loading a handler."""

from __future__ import annotations

import logging
from dataclasses import dataclass


@dataclass(frozen=True)
class HandlerSpec:
    """The parameters that a worker needs to load a handler."""

    model: str
    folder: str  # of the unpacked archive
    handler: str
    envelope: str
    batch_size: int
    threads: int
    gpu: int | None
    packages: str | None  # folder with the archive's own requirements
    limit_max_image_pixels: bool
    installs: bool = False  # whether the server installs the archive's requirements
    decodes: bool = True  # for a handler that gets whole bodies
    metrics: str | None = None  # file with metric definitions; None for TorchServe's own
    continuous: bool = False  # requests join and leave a running batch
    withheld: tuple[str, ...] = ()  # environment variables that worker processes do not get
    log_level: int = logging.INFO


class HandlerNotLoaded(Exception):
    """Loading the handler raised an exception; `failure` is the document of a LoadFailure."""

    def __init__(self, failure: dict[str, str | None]) -> None:
        super().__init__(failure["message"])
        self.failure = failure
