"""The settings in an archive's own YAML, the file of torch-model-archiver's flag --config-file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from model_archive.archive import read_file, read_manifest
from model_archive.errors import InvalidArchive
from torchserve_compat.store.settings import no_settings


def read_settings(archive: Path) -> Mapping[str, Any]:
    """Return the settings in an archive, packed or unpacked; an empty mapping if it has none or is invalid.

    Raises ConfigurationError for a YAML file without settings, for which TorchServe ends.
    """
    try:
        file = read_manifest(archive, archive.name).config_file
        content = read_file(archive, file, archive.name) if file else None
    except (InvalidArchive, OSError):
        return {}
    if content is None:
        return {}
    import yaml  # hardly any archive has one

    try:
        settings = yaml.safe_load(content)
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    if not isinstance(settings, dict):
        raise no_settings(archive.name, str(file))
    return settings
