"""Unpacks archives into the folders that they are served from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shutil import copyfileobj, rmtree

from data_plane.model_server.errors import ModelFailed
from model_archive.archive import is_unpacked, model_folder, open_archive, read_manifest
from model_archive.errors import CannotPack, InvalidArchive
from model_archive.manifest import MANIFEST, Manifest
from model_archive.packing import manifest_of

_BUFFER_BYTES = 1024 * 1024


@dataclass(frozen=True)
class UnpackedArchive:
    """The folder with an archive's files, and its manifest."""

    folder: Path
    manifest: Manifest


def unpack(archive: Path, folder: Path, model: str = "") -> UnpackedArchive:
    """Unpack a .mar or .tar.gz, or use a folder as it is; raise ModelFailed for an invalid or unsafe archive.

    A folder without a manifest gets one of its own, which names the ``model``.
    """
    try:
        if archive.is_dir() and not is_unpacked(archive):
            _link(archive, folder, manifest_of(archive, model))
            archive = folder
        manifest = read_manifest(archive, archive.name)
        if archive.is_dir():
            return UnpackedArchive(model_folder(archive), manifest)
        _unpack(archive, _emptied(folder))
        return UnpackedArchive(folder, manifest)
    except (CannotPack, InvalidArchive) as error:
        raise ModelFailed(f"{error}.") from error
    except OSError as error:
        raise ModelFailed(f"{archive.name} cannot be unpacked into {folder} (--work-dir): {error}.") from error


def _emptied(folder: Path) -> Path:
    rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _link(source: Path, folder: Path, manifest: bytes) -> None:
    """Make a folder of a source, which may be read-only, and its manifest."""
    _emptied(folder)
    for entry in source.iterdir():
        (folder / entry.name).symlink_to(entry.resolve())
    (folder / MANIFEST).parent.mkdir()
    (folder / MANIFEST).write_bytes(manifest)


def _unpack(archive: Path, folder: Path) -> None:
    with open_archive(archive, archive.name) as members:
        for member in members:
            path = folder / member.path
            if member.open is None:
                path.mkdir(parents=True, exist_ok=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                with member.open() as content, path.open("xb") as file:
                    copyfileobj(content, file, _BUFFER_BYTES)
