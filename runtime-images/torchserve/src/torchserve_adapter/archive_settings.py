"""What an archive's own YAML says: the file that torch-model-archiver takes by --config-file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchserve_compat.store.archives import UNREADABLE, read_file

_MANIFEST = "MAR-INF/MANIFEST.json"


def read_settings(archive: Path) -> Mapping[str, Any]:
    """The settings in an archive or an unpacked one; none where there are none. What is wrong with an archive is
    TorchServe's to say."""
    try:
        manifest = json.loads(read_file(archive, _MANIFEST))
        if not (file := manifest["model"].get("configFile")):
            return {}
        import yaml  # hardly any archive has one

        settings = yaml.safe_load(read_file(archive, file))
    except (*UNREADABLE, LookupError, TypeError, ValueError):
        return {}
    except yaml.YAMLError:
        return {}
    return settings if isinstance(settings, dict) else {}
