"""What an archive's own YAML says: the file that torch-model-archiver takes by --config-file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from model_archive.archive import read_file, read_manifest
from model_archive.errors import InvalidArchive


def read_settings(archive: Path) -> Mapping[str, Any]:
    """Return the settings in an archive or an unpacked one; none where there are none, or the archive is invalid."""
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
    return settings if isinstance(settings, dict) else {}
