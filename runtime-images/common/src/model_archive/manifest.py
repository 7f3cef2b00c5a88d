"""The manifest of a model archive, by the rules of TorchServe 0.12. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from model_archive.errors import InvalidManifest
from model_archive.limits import MAX_MANIFEST
from model_archive.text import format_size

FOLDER = "MAR-INF"
MANIFEST = f"{FOLDER}/MANIFEST.json"
REPACK = "make it again with isvc pack"
RUNTIMES = ("python", "python3", "LSP")
STOCK_HANDLERS: Mapping[str, bool] = {
    "base_handler": True,
    "text_classifier": True,
    "image_classifier": True,
    "object_detector": True,
    "image_segmenter": True,
    "dali_image_classifier": True,
    "vllm_handler": False,
    "trt_llm_handler": False,
}
"""TorchServe's own handlers, which need no file: whether each needs weights or a model file."""


@dataclass(frozen=True)
class Manifest:
    """The fields of MAR-INF/MANIFEST.json that are used here."""

    model_name: str
    model_version: str
    handler: str
    """The handler's file, or the name of one of TorchServe's own."""
    requirements_file: str | None = None
    config_file: str | None = None
    model_file: str | None = None
    serialized_file: str | None = None
    runtime: str = RUNTIMES[0]


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
    runtime = manifest.get("runtime", RUNTIMES[0])
    if runtime not in RUNTIMES:
        raise InvalidManifest(
            f"the {MANIFEST} of {archive} has the runtime {str(runtime)[:80]!r}; use {' or '.join(RUNTIMES)}"
        )
    return Manifest(
        required["modelName"],
        required["modelVersion"],
        required["handler"],
        _file(model, "requirementsFile", archive),
        _file(model, "configFile", archive),
        _text(model, "modelFile") or None,
        _text(model, "serializedFile") or None,
        runtime,
    )


def handler_file(handler: str) -> str | None:
    """Return the file of a handler, None of one of TorchServe's own: `path/name`, `name.py`, `name:function`."""
    if handler in STOCK_HANDLERS:
        return None
    module = handler.partition(":")[0]
    return module if module.endswith(".py") else f"{module}.py"


def missing_manifest(archive: str, where: str = "") -> InvalidManifest:
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
        raise _invalid(archive, f"has a model.{field} that is not a file name")
    return value


def _invalid(archive: str, what: str) -> InvalidManifest:
    return InvalidManifest(f"the {MANIFEST} of {archive} {what}; {REPACK}")
