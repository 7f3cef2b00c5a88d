"""The manifest of a model archive, by the rules of TorchServe 0.12. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from model_archive.errors import InvalidManifest
from model_archive.limits import MAX_MANIFEST
from model_archive.text import format_size

FOLDER = "MAR-INF"
MANIFEST = f"{FOLDER}/MANIFEST.json"
REPACK = "make it again with torch-model-archiver"
_RUNTIMES = ("python", "python3", "LSP")


@dataclass(frozen=True)
class Manifest:
    """The fields of MAR-INF/MANIFEST.json that are used here."""

    model_name: str
    model_version: str
    handler: str
    """The handler's file, or the name of one of TorchServe's own."""
    requirements_file: str | None = None
    config_file: str | None = None


def parse_manifest(content: bytes, archive: str) -> Manifest:
    """Raise InvalidManifest, naming `archive`, for what TorchServe would refuse."""
    if len(content) > MAX_MANIFEST:
        raise _invalid(archive, f"is larger than {format_size(MAX_MANIFEST)}")
    try:
        manifest = json.loads(content)
    except (ValueError, RecursionError):
        raise _invalid(archive, "is not valid JSON") from None
    model = manifest.get("model") if isinstance(manifest, dict) else None
    if not isinstance(model, dict):
        raise _invalid(archive, "has no model")
    required = {
        "modelName": _text(model, "modelName"),
        "modelVersion": _version(model),
        "handler": _text(model, "handler"),
    }
    if missing := [field for field, value in required.items() if not value]:
        raise _invalid(archive, f"lacks model.{', model.'.join(missing)}")
    if manifest.get("runtime", _RUNTIMES[0]) not in _RUNTIMES:
        runtime = str(manifest.get("runtime"))
        raise InvalidManifest(
            f"the {MANIFEST} of {archive} has the runtime {runtime[:80]!r}; use {' or '.join(_RUNTIMES)}"
        )
    return Manifest(
        required["modelName"],
        required["modelVersion"],
        required["handler"],
        _file(model, "requirementsFile", archive),
        _file(model, "configFile", archive),
    )


def missing_manifest(archive: str, where: str = "") -> InvalidManifest:
    """Return the error for an archive without a manifest."""
    return InvalidManifest(f"{archive} has no {MANIFEST}{where}; {REPACK}")


def _text(model: dict[str, Any], field: str) -> str:
    value = model.get(field)
    return value if isinstance(value, str) else ""


def _version(model: dict[str, Any]) -> str:
    """Return the version, as TorchServe does: a number is read as text, and one that is not there as 1.0."""
    value = model.get("modelVersion", "1.0")
    return str(value) if type(value) in (int, float, str) else ""


def _file(model: dict[str, Any], field: str, archive: str) -> str | None:
    value = model.get(field)
    if value is not None and not isinstance(value, str):
        raise _invalid(archive, f"has a model.{field} that is no file name")
    return value


def _invalid(archive: str, what: str) -> InvalidManifest:
    return InvalidManifest(f"the {MANIFEST} of {archive} {what}; {REPACK}")
