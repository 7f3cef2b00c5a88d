"""Unpacks archives, trusting nothing in them: no path out of the folder, no links, no bombs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shutil import copyfileobj, rmtree

import msgspec

from data_plane.model_server.errors import ModelFailed
from torchserve_compat.store.archives import UNREADABLE, open_archive
from torchserve_compat.store.safety import Allowance

MANIFEST = Path("MAR-INF") / "MANIFEST.json"

_BUFFER_BYTES = 1024 * 1024
_MAKE = "Make it with torch-model-archiver"


class ModelManifest(msgspec.Struct, frozen=True, rename="camel"):
    """What MAR-INF/MANIFEST.json says of the model, as far as it is used here."""

    handler: str
    requirements_file: str | None = None
    config_file: str | None = None


class _Manifest(msgspec.Struct):
    model: ModelManifest


# Archives are read in threads: msgspec prepares a type at its first use, and two threads that do so at once crash.
_manifest = msgspec.json.Decoder(_Manifest)


@dataclass(frozen=True)
class Unpacked:
    """A folder with an archive's files, and its manifest."""

    folder: Path
    manifest: ModelManifest


def unpack(archive: Path, folder: Path) -> Unpacked:
    """Unpack a .mar, a .tar.gz, or use a folder as it is; raises ModelFailed, which says what is wrong with it."""
    if archive.is_dir():
        root = _root(archive)
        return Unpacked(root, _read_manifest(root, archive.name))
    try:
        rmtree(folder, ignore_errors=True)
        _unpack(archive, folder)
    except OSError as error:
        if error.errno is None:  # gzip's
            raise _unreadable(archive, error) from error
        raise ModelFailed(f"{archive.name} cannot be unpacked into {folder} (--work-dir): {error}.") from error
    except (*UNREADABLE, ValueError) as error:
        raise _unreadable(archive, error) from error
    root = _root(folder)
    return Unpacked(root, _read_manifest(root, archive.name))


def _unpack(archive: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    allowance = Allowance(archive)
    with open_archive(archive) as members:
        for member in members:
            path = folder / allowance.check(member)
            if member.kind == "folder":
                path.mkdir(parents=True, exist_ok=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                with member.open() as content, path.open("wb") as file:
                    copyfileobj(content, file, _BUFFER_BYTES)


def _unreadable(archive: Path, error: Exception) -> ModelFailed:
    return ModelFailed(f"{archive.name} cannot be opened ({error}); is it truncated? Upload it again.")


def _root(folder: Path) -> Path:
    """A .tar.gz of torch-model-archiver has its files below one folder; tar on macOS puts `._NAME` beside that."""
    if (folder / MANIFEST).is_file():
        return folder
    return next((manifest.parents[1] for manifest in sorted(folder.glob(f"*/{MANIFEST}"))), folder)


def _read_manifest(folder: Path, archive: str) -> ModelManifest:
    try:
        return _manifest.decode((folder / MANIFEST).read_bytes()).model
    except OSError as error:
        raise ModelFailed(f"{archive} has no {MANIFEST} ({error.strerror}). {_MAKE}.") from error
    except (ValueError, RecursionError) as error:
        raise ModelFailed(f"{archive} has no usable {MANIFEST} ({error}). {_MAKE}.") from error
