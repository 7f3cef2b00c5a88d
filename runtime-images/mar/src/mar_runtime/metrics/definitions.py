"""The metric definitions in the file that `metrics_config` of config.properties names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec
import yaml

from data_plane.model_server.errors import ConfigurationError


class _DefinedMetric(msgspec.Struct):
    name: str
    unit: str
    dimensions: list[str]


class _MetricsFile(msgspec.Struct):
    model_metrics: dict[Literal["counter", "gauge", "histogram"], list[_DefinedMetric]]


def find(properties: Mapping[str, str], model_dir: Path) -> Path | None:
    """Return the file's path, None for TorchServe's own definitions; raises ConfigurationError for an invalid file."""
    named = properties.get("metrics_config", "").strip()
    if not named:
        return None
    path = model_dir / named
    try:
        msgspec.convert(yaml.safe_load(path.read_bytes()), _MetricsFile)
    except (OSError, yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"metrics_config in config.properties is {named!r}, which cannot be used: {error}. Correct the file, or "
            "remove the line for TorchServe's own metrics; a relative path begins at the model directory."
        ) from error
    return path
