"""Packs a model as torch-model-archiver 0.12 does: which files go into its archive, and what its manifest says.

All files that are named lie at the archive's top, so two of them must not have one name. The files of a folder lie
there by their paths in it.
"""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from model_archive.archive import HANDLER, check_archive, is_unpacked, model_folder
from model_archive.contents import Contents
from model_archive.errors import CannotPack
from model_archive.handlers import WEIGHTS, weights_among
from model_archive.inspection import handler_problem
from model_archive.limits import MAX_CHECKED, MAX_ENTRIES, MAX_MANIFEST
from model_archive.manifest import MANIFEST, RUNTIMES, STOCK_HANDLERS, Manifest, handler_file, parse_manifest
from model_archive.text import quoted
from model_archive.writing import ArchiveFormat, replacing, write_archive

FIRST_TIME = datetime(1980, 1, 1, tzinfo=UTC)
"""The first time that a zip can hold. It is that of all archives, unless another one is asked for."""
MODEL, REQUIREMENTS, CONFIG = "model.py", "requirements.txt", "model-config.yaml"
"""The names by which a folder's files are found."""
DEFAULT_HANDLER = "base_handler"
"""TorchServe's own that loads weights and turns lists of numbers into a tensor, and back."""
_VERSION_OF_FORMAT = "0.12.0"
_VERSION = re.compile(r"[^\s/]+")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_LEFT_OUT = ("__MACOSX", "__pycache__")


@dataclass(frozen=True, kw_only=True)
class Sources:
    """What an archive is made from: torch-model-archiver's options of the same names. What is empty is not given."""

    model_name: str = ""
    version: str = ""
    handler: str = ""
    """A path, with or without ``.py``, and ``:FUNCTION``; or the name of one of TorchServe's own."""
    model_file: Path | None = None
    serialized_file: Path | None = None
    requirements_file: Path | None = None
    config_file: Path | None = None
    extra_files: tuple[str, ...] = ()
    """Files, folders and patterns."""
    runtime: str = ""
    other_fields: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the manifest's model."""


@dataclass(frozen=True)
class Packed:
    """An archive that was written: its manifest, its files with their sizes, and what of the folders is not in it."""

    path: Path
    manifest: Manifest
    files: Mapping[PurePosixPath, int]
    left_out: tuple[Path, ...]


@dataclass(frozen=True)
class ArchiveTarget:
    """Where an archive is written, in which form, and the time that all its files get."""

    folder: Path
    form: ArchiveFormat = ArchiveFormat.DEFAULT
    overwrite: bool = False
    time: datetime = FIRST_TIME


def in_folder(folder: Path, given: Sources) -> Sources:
    """Return the sources with everything in a folder; what is not given is found by its name, or is in its manifest."""
    if not folder.is_dir():
        raise CannotPack(f"{folder} is not a folder; name the folder with the model's files")
    given = _from_folder(model_folder(folder), given)
    # The archive's name is the folder's own, also of `.` and of a link.
    found = _of_manifest(model_folder(folder)) if is_unpacked(folder) else _by_names(folder.resolve(), given)
    filled = {name: value for name, value in vars(found).items() if not getattr(given, name)}
    folders = (glob.escape(str(model_folder(folder))), *given.extra_files)
    return replace(given, **filled | {"extra_files": folders})


def pack(sources: Sources, target: ArchiveTarget) -> Packed:
    """Write the archive; raise CannotPack, and InvalidArchive for what the runtimes would refuse."""
    sources = _with_defaults(sources)
    path = target.folder / f"{_checked_name(sources)}{target.form.ending}"
    if not target.folder.is_dir():
        raise CannotPack(f"{target.folder} is not a folder; create it, or name another one with --export-path")
    if os.path.lexists(path) and not target.overwrite:
        raise CannotPack(f"{path} exists already; overwrite it with --force")
    files, left_out = _files_of(sources, path)
    text = manifest_text(sources, target.time)
    manifest = parse_manifest(text, path.name)
    sizes = _check_contents(files, len(text), path.name)
    if why := _load_problem(manifest, files):
        raise CannotPack(f"{path.name}: {why}")
    with replacing(path) as draft:
        write_archive(draft, {PurePosixPath(MANIFEST): text, **files}, target.form, target.time)
        check_archive(draft, path.name)
    return Packed(path, manifest, sizes, tuple(left_out))


def found_by_name(names: Collection[str]) -> dict[str, str]:
    """Return the files that are found in a folder by their names, by the fields of ``Sources`` and ``Manifest``.

    Of several weights none is, so the handler loads what it names itself. Neither is the network, which TorchServe's
    BaseHandler would serve without weights.
    """
    weights = weights_among(names)
    own = {"handler": HANDLER, "requirements_file": REQUIREMENTS, "config_file": CONFIG}
    own |= {"model_file": MODEL} if len(weights) <= 1 else {}
    found = {field: name for field, name in own.items() if name in names}
    return found | ({"serialized_file": weights[0]} if len(weights) == 1 else {})


def manifest_of(folder: Path, name: str) -> bytes:
    """Return the manifest that a folder with a handler is served with.

    Raise CannotPack if the handler leaves it to TorchServe's BaseHandler to choose among several weights.
    """
    folder = folder.resolve()
    names = _names_in(folder)
    found = _found_in(folder, names)
    text = manifest_text(_with_defaults(replace(found, model_name=name or found.model_name)), FIRST_TIME)
    if len(weights_among(names)) > 1:
        files = {PurePosixPath(file): folder / file for file in names}
        if why := _load_problem(parse_manifest(text, str(folder)), files):
            raise CannotPack(f"{folder}: {why}")
    return text


def manifest_text(sources: Sources, time: datetime) -> bytes:
    """Return the manifest as torch-model-archiver writes it, but for the time."""
    model = {
        **sources.other_fields,
        "modelName": sources.model_name,
        "serializedFile": _name_of(sources.serialized_file),
        "handler": sources.handler.rpartition("/")[2],
        "modelFile": _name_of(sources.model_file),
        "modelVersion": sources.version,
        "requirementsFile": _name_of(sources.requirements_file),
        "configFile": _name_of(sources.config_file),
    }
    document = {
        "createdOn": time.strftime("%d/%m/%Y %H:%M:%S"),
        "runtime": sources.runtime,
        "model": {name: value for name, value in model.items() if value},
        "archiverVersion": _VERSION_OF_FORMAT,
    }
    return json.dumps(document, indent=2).encode()


def _with_defaults(sources: Sources) -> Sources:
    runtime = sources.runtime or RUNTIMES[0]
    if runtime not in RUNTIMES[:2]:
        raise CannotPack(f"{quoted(runtime)} is not a runtime that serves it; use {' or '.join(RUNTIMES[:2])}")
    has_weights = sources.serialized_file or sources.model_file
    if sources.version and not (_VERSION.fullmatch(sources.version) and sources.version.isprintable()):
        raise CannotPack(
            f"{quoted(sources.version)} cannot be a version: it is a part of URLs; with --version, give one without "
            "spaces, line breaks and '/', such as 1.0"
        )
    handler = sources.handler or (DEFAULT_HANDLER if has_weights else "")
    return replace(sources, version=sources.version or "1.0", runtime=runtime, handler=handler)


def _by_names(folder: Path, given: Sources) -> Sources:
    names = _names_in(folder)
    if given.serialized_file:
        names = {name for name in names if not name.endswith(WEIGHTS)}
    if len(several := weights_among(names)) > 1:
        raise CannotPack(
            f"{folder} has several weights, {', '.join(several)}; name one, such as --serialized-file {several[0]}"
        )
    found = _found_in(folder, names)
    has_model = given.handler or given.serialized_file or given.model_file or found.handler
    if not (has_model or found.serialized_file or found.model_file):
        for place in sorted(folder.glob(f"*/{HANDLER}")):
            raise CannotPack(f"{folder} has no {HANDLER}; name the folder that has it: {place.parent}")
    return found


def _names_in(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir() if entry.is_file()}


def _found_in(folder: Path, names: Collection[str]) -> Sources:
    found = {field: folder / name for field, name in found_by_name(names).items()}
    return Sources(
        model_name=folder.name,
        handler=str(found.get("handler", "")),
        model_file=found.get("model_file"),
        serialized_file=found.get("serialized_file"),
        requirements_file=found.get("requirements_file"),
        config_file=found.get("config_file"),
    )


def _from_folder(folder: Path, given: Sources) -> Sources:
    """Return the sources with the paths of a folder's files that are named as they are in it."""

    def is_in_folder(file: Path | str) -> bool:
        return not os.path.lexists(file) and (folder / file).is_file()

    named: dict[str, Any] = {
        name: folder / file for name, file in vars(given).items() if isinstance(file, Path) and is_in_folder(file)
    }
    file = handler_file(given.handler) if given.handler else None
    handler = str(folder / given.handler) if file and is_in_folder(file) else given.handler
    return replace(given, handler=handler, **named)


def _of_manifest(folder: Path) -> Sources:
    with (folder / MANIFEST).open("rb") as stream:
        text = stream.read(MAX_MANIFEST + 1)
    manifest = parse_manifest(text, str(folder))
    file = handler_file(manifest.handler)

    def at(name: str | None) -> Path | None:
        return folder / name if name else None

    return Sources(
        model_name=manifest.model_name,
        version=manifest.model_version,
        handler=manifest.handler if file is None else str(folder / manifest.handler),
        model_file=at(manifest.model_file),
        serialized_file=at(manifest.serialized_file),
        requirements_file=at(manifest.requirements_file),
        config_file=at(manifest.config_file),
        runtime=manifest.runtime,
        other_fields=json.loads(text)["model"],
    )


def _checked_name(sources: Sources) -> str:
    name = sources.model_name
    if not _NAME.fullmatch(name):
        what = f"{quoted(name)} cannot be a model's name" if name else "the model has no name"
        raise CannotPack(
            f"{what}; with --model-name, give it one of letters, digits, '_', '-' and '.' that begins with a letter or "
            "a digit"
        )
    return name


def _files_of(sources: Sources, target: Path) -> tuple[dict[PurePosixPath, Path], list[Path]]:
    """Return the files by their paths in the archive, and what of the folders is left out."""
    files: dict[PurePosixPath, Path] = {}
    left_out: list[Path] = []

    def add(file: Path, path: PurePosixPath) -> None:
        if path in files and not files[path].samefile(file):
            raise CannotPack(f"{files[path]} and {file} would both be {path} in the archive; rename one of them")
        files[path] = file

    for option, file in _named(sources):
        if not file.is_file():
            is_name = option == "--handler" and ".py" not in sources.handler
            own = f", or name one of TorchServe's own: {', '.join(STOCK_HANDLERS)}" if is_name else ""
            raise CannotPack(f"there is no file {file}; correct {option}{own}")
        add(file, PurePosixPath(file.name))
    for pattern in sources.extra_files:
        for found in _matching(pattern):
            if found.is_dir():
                for file in _walk(found, left_out):
                    path = PurePosixPath(file.relative_to(found))
                    if path != PurePosixPath(MANIFEST) and not _is_target(file, target):
                        add(file, path)
            else:
                add(found, PurePosixPath(found.name))
    return dict(sorted(files.items())), left_out


def _named(sources: Sources) -> Iterator[tuple[str, Path]]:
    """Return each option that names a file, with the file."""
    if not sources.handler:
        raise CannotPack(
            f"the model has no handler; add {HANDLER}, or name its file or one of TorchServe's own "
            f"({', '.join(STOCK_HANDLERS)}) with --handler"
        )
    file = handler_file(sources.handler)
    if file is not None:
        yield "--handler", Path(file)
    elif STOCK_HANDLERS[sources.handler] and not sources.serialized_file and not sources.model_file:
        raise CannotPack(f"TorchServe's {sources.handler} has no weights to load; name them with --serialized-file")
    for name in ("model_file", "serialized_file", "requirements_file", "config_file"):
        if path := getattr(sources, name):
            yield f"--{name.replace('_', '-')}", path


def _matching(pattern: str) -> list[Path]:
    found = [Path(path) for path in sorted(glob.glob(pattern))]  # noqa: PTH207 - the pattern may be absolute
    if not found:
        raise CannotPack(f"there is no file {pattern}; correct --extra-files")
    return found


def _walk(folder: Path, left_out: list[Path]) -> Iterator[Path]:
    """Return a folder's files; hidden ones, and what macOS and Python leave behind, are left out.

    Raises CannotPack for a link that leads out of the folder, as the storage-initializer does: what it leads to is
    perhaps not meant for those who get the archive.
    """
    real = folder.resolve()
    for count, (place, folders, files) in enumerate(os.walk(folder, followlinks=True)):
        if count == MAX_ENTRIES:
            raise CannotPack(f"{folder} holds {MAX_ENTRIES} folders or more; remove links that lead back into it")
        hidden = [name for name in (*folders, *files) if name.startswith(".") or name in _LEFT_OUT]
        left_out += [Path(place, name) for name in sorted(hidden)]
        for name in sorted({*folders, *files} - set(hidden)):
            path = Path(place, name)
            if path.is_symlink() and not path.resolve().is_relative_to(real):
                raise CannotPack(f"{path} is a link that leads out of {folder}; copy what it leads to into the folder")
        folders[:] = sorted(name for name in folders if name not in hidden)
        yield from (Path(place, name) for name in sorted(files) if name not in hidden)


def _is_target(file: Path, target: Path) -> bool:
    """Return whether a file is the archive of the last time; raise CannotPack if it would be overwritten unread."""
    if target.is_dir() and file.resolve().is_relative_to(target.resolve()):
        raise CannotPack(f"{target} holds the model's own files; name another folder with --export-path")
    return file.name == target.name and file.resolve() == target.resolve()


def _check_contents(files: Mapping[PurePosixPath, Path], manifest: int, name: str) -> dict[PurePosixPath, int]:
    """Return the sizes; refuse names before gigabytes are packed."""
    sizes = {path: _size(file) for path, file in files.items()}
    contents = Contents(name, size=sum(sizes.values()), cure="rename it, or leave it out")
    contents.add_file(MANIFEST, manifest)
    for path, size in sizes.items():
        contents.add_file(str(path), size)
    return sizes


def _load_problem(manifest: Manifest, files: Mapping[PurePosixPath, Path]) -> str | None:
    def content_of(name: str) -> bytes | None:
        with files[PurePosixPath(name)].open("rb") as stream:
            return stream.read(MAX_CHECKED + 1)

    weights = files.get(PurePosixPath(manifest.serialized_file or ""))
    return handler_problem(manifest, content_of, weights, there=map(str, files))


def _size(file: Path) -> int:
    if not file.is_file():
        raise CannotPack(f"{file} is not a file; remove it")
    return file.stat().st_size


def _name_of(file: Path | None) -> str:
    return file.name if file else ""
