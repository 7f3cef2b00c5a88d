"""The file behind `metrics_config` of config.properties: which metrics handlers find defined by their names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec
import yaml

from data_plane.model_server.errors import ConfigurationError


class _Metric(msgspec.Struct):
    name: str
    unit: str
    dimensions: list[str]


class _Document(msgspec.Struct):
    model_metrics: dict[Literal["counter", "gauge", "histogram"], list[_Metric]]


def find(properties: Mapping[str, str], model_dir: Path) -> Path | None:
    """None where TorchServe's own definitions do; raises ConfigurationError for a file that is not as those are."""
    named = properties.get("metrics_config", "").strip()
    if not named:
        return None
    path = model_dir / named
    try:
        msgspec.convert(yaml.safe_load(path.read_bytes()), _Document)
    except (OSError, yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"metrics_config in config.properties is {named!r}, which cannot be used: {error}. Correct the file, or "
            "remove the line for TorchServe's own metrics; a relative path begins at the model directory."
        ) from error
    return path
