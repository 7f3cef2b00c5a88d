"""The archives of a model store: what their manifests say, or why they cannot be served."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from model_archive.archive import is_model, read_manifest
from model_archive.errors import InvalidArchive, UnsafeArchive


@dataclass(frozen=True)
class Archive:
    """One entry of the model store. `problem` is empty when it can be loaded, `is_unsafe` when it must not be."""

    file: str
    model_name: str
    problem: str = ""
    model_version: str = "1.0"
    handler: str = ""  # a file's name, or the name of one of TorchServe's own
    is_unsafe: bool = False


def read_store(store: Path) -> Mapping[str, Archive]:
    """Return every entry that TorchServe would take for a model, by file name."""
    return {path.name: read_archive(path) for path in sorted(store.iterdir()) if is_model(path)}


def read_archive(path: Path) -> Archive:
    """Return what a file or folder says of itself; what is wrong with it becomes its `problem`."""
    try:
        manifest = read_manifest(path, str(path))
    except InvalidArchive as error:
        return Archive(path.name, "", str(error), is_unsafe=isinstance(error, UnsafeArchive))
    except OSError as error:
        return Archive(path.name, "", f"{path} cannot be read ({error.strerror}); run chmod -R a+rX on it")
    return Archive(path.name, manifest.model_name, "", manifest.model_version, manifest.handler)
