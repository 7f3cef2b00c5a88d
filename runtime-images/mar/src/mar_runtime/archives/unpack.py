"""Unpacks archives into the folders that they are served from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shutil import copyfileobj, rmtree

from data_plane.model_server.errors import ModelFailed
from model_archive.archive import model_folder, open_archive, read_manifest
from model_archive.errors import InvalidArchive
from model_archive.manifest import Manifest

_BUFFER_BYTES = 1024 * 1024


@dataclass(frozen=True)
class UnpackedArchive:
    """The folder with an archive's files, and its manifest."""

    folder: Path
    manifest: Manifest


def unpack(archive: Path, folder: Path) -> UnpackedArchive:
    """Unpack a .mar or .tar.gz, or use a folder as it is; raise ModelFailed for an invalid or unsafe archive."""
    try:
        manifest = read_manifest(archive, archive.name)
        if archive.is_dir():
            return UnpackedArchive(model_folder(archive), manifest)
        rmtree(folder, ignore_errors=True)
        _unpack(archive, folder)
        return UnpackedArchive(folder, manifest)
    except InvalidArchive as error:
        raise ModelFailed(f"{error}.") from error
    except OSError as error:
        raise ModelFailed(f"{archive.name} cannot be unpacked into {folder} (--work-dir): {error}.") from error


def _unpack(archive: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with open_archive(archive, archive.name) as members:
        for member in members:
            path = folder / member.path
            if member.open is None:
                path.mkdir(parents=True, exist_ok=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                with member.open() as content, path.open("xb") as file:
                    copyfileobj(content, file, _BUFFER_BYTES)
