"""Whether TorchServe can load a model archive, and whether unpacking it is safe.

TorchServe takes a ``.mar`` for a zip, any other file for a ``.tar.gz`` with one top folder, and a folder for an
archive that is unpacked already. Only the directory and the manifest are read: an archive may be very large.
"""

from __future__ import annotations

import json
import stat
import tarfile
import zlib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import IO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from storage_initializer.errors import ArchiveError
from storage_initializer.progress import format_size

MANIFEST = "MAR-INF/MANIFEST.json"
_RUNTIMES = ("python", "python3", "LSP")
_REQUIRED = ("modelName", "modelVersion", "handler")
_MAX_MANIFEST = 1 << 20
# Weights hardly compress: an archive that claims to unpack to far more than it weighs fills the node's disk.
_MAX_EXPANSION = 100
_HARMLESS_SIZE = 1 << 30
_REPACK = "make it again with torch-model-archiver"


class _Contents:
    """What an archive's directory says it holds, refused at the first entry that must not be unpacked."""

    def __init__(self, name: str, archive_size: int) -> None:
        self._name = name
        self._archive_size = archive_size
        self._seen: set[str] = set()
        self._unpacked = 0

    def add(self, entry: str, size: int, *, plain: bool) -> None:
        """``plain``: a file or a folder, not a link or a device."""
        if _leaves_folder(entry):
            raise ArchiveError(f"{self._name} would unpack {entry!r} outside of its folder; do not use it, {_REPACK}")
        if not plain:
            raise ArchiveError(f"{self._name} holds a link or device, {entry!r}; {_REPACK}, from files only")
        if entry in self._seen:
            raise ArchiveError(f"{self._name} holds {entry!r} twice; {_REPACK}")
        self._seen.add(entry)
        self._unpacked += size
        if self._unpacked > max(_HARMLESS_SIZE, _MAX_EXPANSION * self._archive_size):
            raise ArchiveError(
                f"{self._name} has {format_size(self._archive_size)} and claims to unpack to "
                f"{format_size(self._unpacked)} or more; do not use it, {_REPACK}"
            )


def check_archive(path: Path, name: str) -> None:
    """``name`` is how messages call it."""
    if path.is_dir():
        _check_folder(path, name)
    elif path.name.endswith(".mar"):
        _check_zip(path, name)
    else:
        _check_tar(path, name)


def _check_folder(path: Path, name: str) -> None:
    entries = list(path.iterdir())
    # TorchServe looks into a lone folder, too: that is how some tools unpack an archive.
    top = entries[0] if len(entries) == 1 and entries[0].is_dir() else path
    manifest = top / MANIFEST
    if not manifest.is_file():
        raise ArchiveError(f"{name} has no {MANIFEST}; {_REPACK}")
    with manifest.open("rb") as stream:
        _check_manifest(_read_manifest(stream, name), name)


def _check_zip(path: Path, name: str) -> None:
    contents = _Contents(name, path.stat().st_size)
    try:
        with ZipFile(path) as archive:
            for info in archive.infolist():
                # `filename` is a cleaned form that ends at the first NUL.
                contents.add(info.orig_filename, info.file_size, plain=_is_plain(info))
            _check_compression(archive.infolist(), path.stat().st_size, name)
            try:
                manifest = archive.open(MANIFEST)
            except KeyError:
                raise ArchiveError(f"{name} has no {MANIFEST}; {_REPACK}") from None
            with manifest:
                content = _read_manifest(manifest, name)
    except BadZipFile as error:
        raise ArchiveError(f"{name} {_zip_damage(path, error)}; copy it to the source again") from error
    except (OSError, zlib.error, EOFError, NotImplementedError, UnicodeDecodeError) as error:
        raise ArchiveError(f"{name} is damaged ({error}); copy it to the source again") from error
    _check_manifest(content, name)


def _is_plain(info: ZipInfo) -> bool:
    return stat.S_IFMT(info.external_attr >> 16) in (0, stat.S_IFREG, stat.S_IFDIR)


def _check_compression(infos: Iterable[ZipInfo], archive_size: int, name: str) -> None:
    packed = 0
    for info in infos:
        packed += info.compress_size
        if info.flag_bits & 0x1 or info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise ArchiveError(f"{name}: {info.filename} is encrypted or packed in a way Java cannot read; {_REPACK}")
    if packed > archive_size:
        raise ArchiveError(f"{name} has entries that overlap; do not use it, {_REPACK}")


def _zip_damage(path: Path, error: BadZipFile) -> str:
    size = path.stat().st_size
    if size == 0:
        return "is empty (0 bytes)"
    with path.open("rb") as stream:
        starts_as_zip = stream.read(4) == b"PK\x03\x04"
    if not starts_as_zip:
        return f"is not a zip archive ({size} bytes)"
    if str(error) == "File is not a zip file":
        return f"is truncated: after {size} bytes the zip directory is missing"
    return f"is damaged ({error})"


def _check_tar(path: Path, name: str) -> None:
    """The whole file is read, once: a tar has no directory, and the manifest is its last member."""
    contents, manifest = _Contents(name, path.stat().st_size), None
    try:
        with tarfile.open(path, mode="r:gz") as archive:
            for member in archive:
                contents.add(member.name, member.size, plain=member.isfile() or member.isdir())
                if PurePosixPath(member.name).parts[1:] == PurePosixPath(MANIFEST).parts:
                    stream = archive.extractfile(member)
                    manifest = _read_manifest(stream, name) if stream else None
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        size = path.stat().st_size
        raise ArchiveError(f"{name} is truncated or not a tar.gz ({size} bytes: {error}); copy it again") from error
    if manifest is None:
        raise ArchiveError(f"{name} has no {MANIFEST} below its top folder; {_REPACK}")
    _check_manifest(manifest, name)


def _leaves_folder(name: str) -> bool:
    parts = name.replace("\\", "/").split("/")
    return not parts[0] or ":" in parts[0] or ".." in parts or "\0" in name


def _read_manifest(stream: IO[bytes], name: str) -> bytes:
    content = stream.read(_MAX_MANIFEST + 1)
    if len(content) > _MAX_MANIFEST:
        raise ArchiveError(f"the {MANIFEST} of {name} is larger than {format_size(_MAX_MANIFEST)}; {_REPACK}")
    return content


def _check_manifest(content: bytes, name: str) -> None:
    try:
        manifest = json.loads(content)
    except (ValueError, RecursionError):
        raise ArchiveError(f"the {MANIFEST} of {name} is not valid JSON; {_REPACK}") from None
    model = manifest.get("model") if isinstance(manifest, dict) else None
    if not isinstance(model, dict):
        raise ArchiveError(f"the {MANIFEST} of {name} has no model; {_REPACK}")
    if missing := [field for field in _REQUIRED if not isinstance(model.get(field), str) or not model[field]]:
        raise ArchiveError(f"the {MANIFEST} of {name} lacks model.{', model.'.join(missing)}; {_REPACK}")
    if manifest.get("runtime") not in _RUNTIMES:
        raise ArchiveError(
            f"the {MANIFEST} of {name} has the runtime {manifest.get('runtime')!r}; use {' or '.join(_RUNTIMES)}"
        )
