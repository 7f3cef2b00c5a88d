"""Reads files of YAML. libyaml takes a tenth of the time of PyYAML's own parser, and goldens are megabytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def documents(file: Path) -> list[Any]:
    """All of a file, but for empty ones."""
    return [item for item in yaml.load_all(file.read_text(), yaml.CSafeLoader) if item is not None]


def document(file: Path) -> Any:
    """The one of a file."""
    (found,) = documents(file)
    return found
