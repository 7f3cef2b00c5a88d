"""The archives of a model store: what their manifests say, or why they cannot be read."""

from __future__ import annotations

import json
import tarfile
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_MANIFEST = "MAR-INF/MANIFEST.json"
# What TorchServe takes for an archive with load_models=all; only a .mar is a zip, the others are tar.gz.
_ENDINGS = (".mar", ".model", ".tar.gz")
# RuntimeError is zipfile's for encryption and unknown compression.
_UNREADABLE = (OSError, zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, RuntimeError)


@dataclass(frozen=True)
class Archive:
    """One entry of the model store. `problem` is empty when TorchServe can load it."""

    file: str
    model_name: str
    problem: str = ""
    model_version: str = "1.0"


def read_store(store: Path) -> Mapping[str, Archive]:
    """Every entry that TorchServe would take for a model, by file name."""
    return {path.name: read_archive(path) for path in sorted(store.iterdir()) if _is_model(path)}


def read_archive(path: Path) -> Archive:
    """What a file or folder says of itself; nothing is raised, what is wrong with it becomes its `problem`."""
    try:
        model = json.loads(_read_manifest(path))["model"]
        return Archive(path.name, model["modelName"], model_version=str(model.get("modelVersion", "1.0")))
    except _UNREADABLE as error:
        return Archive(path.name, "", f"cannot be opened ({error}); is it truncated?")
    except (KeyError, TypeError, ValueError) as error:
        return Archive(path.name, "", f"has no usable {_MANIFEST} ({error}); make it with torch-model-archiver")


def _is_model(path: Path) -> bool:
    if path.name.startswith("."):
        return False
    return path.is_dir() or path.name.endswith(_ENDINGS)


def _read_manifest(path: Path) -> bytes:
    if path.is_dir():
        return (path / _MANIFEST).read_bytes()
    if path.suffix == ".mar":
        with zipfile.ZipFile(path) as archive:
            return archive.read(_MANIFEST)
    with tarfile.open(path, "r:gz") as archive:
        for member in archive:
            if member.name.endswith(_MANIFEST) and (content := archive.extractfile(member)):
                return content.read()
    raise KeyError("it is not there")
