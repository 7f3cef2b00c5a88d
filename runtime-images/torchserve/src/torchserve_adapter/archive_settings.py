"""What an archive's own YAML says: the file that torch-model-archiver takes by --config-file."""

from __future__ import annotations

import json
import tarfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_MANIFEST = "MAR-INF/MANIFEST.json"


def read_settings(archive: Path) -> Mapping[str, Any]:
    """The settings in an archive or an unpacked one; none where there are none. What is wrong with an archive is
    TorchServe's to say."""
    try:
        manifest = json.loads(_read(archive, _MANIFEST))
        if not (file := manifest["model"].get("configFile")):
            return {}
        import yaml  # hardly any archive has one

        settings = yaml.safe_load(_read(archive, file))
    except (OSError, zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, LookupError, TypeError, ValueError):
        return {}
    except yaml.YAMLError:
        return {}
    return settings if isinstance(settings, dict) else {}


def _read(archive: Path, file: str) -> bytes:
    if archive.is_dir():
        return (archive / file).read_bytes()
    if archive.suffix == ".mar":
        with zipfile.ZipFile(archive) as members:
            return members.read(file)
    with tarfile.open(archive, "r:gz") as members:
        for member in members:
            if member.name.endswith(f"/{file}") and (content := members.extractfile(member)):
                return content.read()
    raise LookupError(file)
