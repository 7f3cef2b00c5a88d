"""How a run of the benchmark is made: from the command line and the environment, which only ``__main__`` reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Options:
    """``quick`` is for work in progress: few cells, a second or two each; its figures are not published."""

    quick: bool
    cache: Path  # for what is made once: virtual environments, models
    environment: Mapping[str, str]
    before: Path | None = None  # another checkout to compare with
