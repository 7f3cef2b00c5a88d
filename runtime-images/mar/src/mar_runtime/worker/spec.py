"""What it takes to load a handler, wherever it is to run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HandlerSpec:
    """What a worker needs to load a handler."""

    model: str
    folder: str  # of the unpacked archive
    handler: str
    envelope: str
    batch_size: int
    threads: int
    gpu: int | None
    packages: str | None  # folder with the archive's own requirements
    limit_max_image_pixels: bool
    parses_json: bool = True  # for a handler that gets bodies whole
    metrics: str | None = None  # file that defines them; None for TorchServe's own
    continuous: bool = False  # requests join and leave a running batch
    withheld: tuple[str, ...] = ()  # variables of the environment that a process of its own does not have


class HandlerNotLoaded(Exception):
    """Loading raised; `failure` is a LoadFailure's document."""

    def __init__(self, failure: dict[str, str | None]) -> None:
        super().__init__(failure["message"])
        self.failure = failure
