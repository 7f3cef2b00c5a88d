"""``python -m storage_initializer.inspection SRC``: say what a source holds and what is wrong with it, without a copy.

The result is one JSON document, which `isvc inspect` prints. Where a source can be read in parts, only the directory
and the manifest of a ``.mar`` are read.
"""

from __future__ import annotations

import errno
import io
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import IO, Any, Literal, cast

from model_archive.archive import ENDINGS, HANDLER, has_manifest, open_archive
from model_archive.configuration import CONFIG, OF_STORES, STORES, select
from model_archive.errors import DamagedArchive, InvalidArchive, NoModel
from model_archive.formats import SUFFIXES, Format, format_of, is_bare_model
from model_archive.inspection import (
    Inspected,
    checked_files,
    inspect_archive,
    inspected,
)
from model_archive.limits import MAX_CHECKED, MAX_MANIFEST
from model_archive.manifest import MANIFEST, Manifest, parse_manifest
from model_archive.packing import CONFIG as MODEL_CONFIG
from model_archive.packing import found_by_name
from model_archive.signatures import signature_of
from model_archive.text import quoted
from storage_initializer.errors import InitializerError, LayoutError, UnexpectedResponseError
from storage_initializer.generate import beside_archives
from storage_initializer.kinds import lone_archive
from storage_initializer.layout import not_there, parse_settings, requested, store_below
from storage_initializer.limits import MAX_CONFIG, MAX_INSPECTED, MAX_UNSIZED
from storage_initializer.lines import one_line
from storage_initializer.plan import make_plan
from storage_initializer.registry import open_source
from storage_initializer.retry import Retry
from storage_initializer.secrets import hiding
from storage_initializer.settings import WAYS, Document, of_archive, of_model, settings_problem
from storage_initializer.sources import Source, SourceFile
from storage_initializer.termination import leave
from storage_initializer.uri import LOCAL_SCHEME

_BLOCK = 1 << 18
_KEPT_BLOCKS = 16
# Where a copy would go: nothing is written.
_NOWHERE = "/nonexistent/isvc-inspect"
_MOUNT = PurePosixPath("/mnt/models")
_UNPACKED = "{} is unpacked when it is downloaded, and is not looked into; unpack it, and name the folder"
_PACK_AGAIN = ", and pack it again"  # which is no advice on a folder that is served as it is
# What no server takes from model-config.yaml, as the file has it.
_DESCRIBED = {Format.ONNX: WAYS, Format.EXPORTED: ("inputs",)}


def main(arguments: Sequence[str] | None = None, environment: Mapping[str, str] = os.environ) -> int:
    """Print the document; return an exit code of the storage-initializer."""
    given = sys.argv[1:] if arguments is None else arguments
    shown, hide = None, hiding(environment, *given)
    try:
        plan = make_plan([*given, _NOWHERE], environment)
        transfer = plan.transfers[0]
        shown = transfer.source.shown
        retry = Retry(plan.policy.attempts, random.random, time.sleep)
        source = open_source(transfer, plan)
        with tempfile.TemporaryDirectory() as scratch:
            listed = plan.selection.of(retry.run(source.list_files))
            place = Path(transfer.source.path) if transfer.source.scheme == LOCAL_SCHEME else None
            document = Inspection(source, retry, Path(scratch), place).document(listed)
    except InitializerError as error:
        error.source = error.source or shown
        sys.stderr.write(f"{one_line(hide(str(error)))}\n")
        return error.exit_code
    except ModuleNotFoundError:  # `isvc inspect` names the extra that has it
        raise
    except Exception as error:  # noqa: BLE001 - Python would print it with its secrets
        sys.stderr.write(f"{one_line(hide(f'unexpected {type(error).__name__}: {error}'))}\n")
        return InitializerError.exit_code
    sys.stdout.write(f"{json.dumps({'source': shown, **document}, default=str)}\n")
    return 0


@dataclass(frozen=True)
class Inspection:
    """Looks into one source; ``scratch`` is a folder for files that cannot be read in parts.

    ``place`` is the source's own path, if it is on this machine: advice is about the files beside a model.
    """

    source: Source
    retry: Retry
    scratch: Path
    place: Path | None = None

    def document(self, listed: Sequence[SourceFile]) -> Document:
        files = {file.path: file for file in listed}
        settings, problems = self._configuration(files)
        stores = _stores(settings)
        unpacked = self._unpacked(files)
        archives = _archives({} if unpacked else files, stores, self._may_be_archive)
        has_handler = PurePosixPath(HANDLER) in files  # which the files beside it are for
        is_alone = _is_alone(files)
        if has_handler and not archives and (settings is None or is_alone):
            archives = [PurePosixPath()]
        looked_into = {path: self._archive(path, files) for path in archives[:MAX_INSPECTED]}
        served, unserved = _served(None if is_alone else settings, archives, stores)
        problems += unserved
        if len(archives) > MAX_INSPECTED:
            problems.append(f"there are {len(archives)} archives, of which {MAX_INSPECTED} were looked into")
        is_one = has_handler or PurePosixPath() in archives
        bare = [path for path in files if is_bare_model(path) and len(path.parts) == 1 and not is_one]
        models = [] if archives else bare
        declared: Document = {}
        if models and PurePosixPath(MODEL_CONFIG) in files:
            content = self._beginning(files[PurePosixPath(MODEL_CONFIG)], MAX_CHECKED + 1)
            declared, why = of_model(content)
            problems += [f"{MODEL_CONFIG}: {why}; correct it"] if why else []
        if not archives and not models and not is_one:
            problems.append(_UNPACKED.format(unpacked) if unpacked else _no_model(files))
        return {
            "files": len(files),
            "bytes": sum(file.size for file in files.values()),
            "configuration": settings,
            "archives": [
                {
                    "path": str(path),
                    "bytes": _size(path, files),
                    "served": path in served and found.manifest is not None,
                    **_fields(found),
                }
                for path, found in looked_into.items()
            ],
            "models": [self._model(files[path], declared, problems) for path in models],
            "problems": [*problems, *(problem for found in looked_into.values() for problem in found.problems)],
            "notes": [*beside_archives(bare)] if archives else [],
        }

    def _unpacked(self, files: Mapping[PurePosixPath, SourceFile]) -> PurePosixPath | None:
        """Return the only file, if it is unpacked when it is downloaded and no packed model; None for any other."""
        path = lone_archive({path: path for path in files})
        if path is None or len(path.parts) > 1:  # in a model store, for example
            return None
        if not path.name.endswith(ENDINGS):
            return path
        try:
            with open_archive(self._packed(files[path]), str(path)) as members:
                is_model = any(member.path == PurePosixPath(MANIFEST) for member in members)
        except InvalidArchive:  # which is said of it as of a model
            return None
        return None if is_model else path

    def _may_be_archive(self, file: SourceFile) -> bool:
        """Whether a ``.tar.gz`` is a model archive, or is damaged, which is said of it then."""
        try:
            return has_manifest(self._packed(file), str(file.path))
        except DamagedArchive:
            return True

    def _model(self, file: SourceFile, declared: Document, problems: list[str]) -> Document:
        """Return what a model file is, with tensors that are declared beside it if it does not describe them itself.

        What keeps a runtime from serving it is added to the problems.
        """
        found: Document = {"path": str(file.path), "bytes": file.size}
        try:
            packed = self._packed(file)
            place = self.place / file.path if self.place and self.place.is_dir() else self.place
            form = format_of(packed, place)
        except NoModel as error:
            problems.append(f"{file.path}: {error}")
            return {**found, "format": None}
        tensors = {name: items for name, items in asdict(signature_of(packed, form)).items() if items}
        if twice := [name for name in _DESCRIBED.get(form, ()) if name in declared]:
            named = " and ".join(twice)
            problems.append(f"{MODEL_CONFIG}: {file.path} describes its {named} itself; remove them there")
        return {
            **found,
            "format": form.value,
            **tensors,
            **{way: declared[way] for way in declared if way not in twice},
        }

    def _archive(self, path: PurePosixPath, files: Mapping[PurePosixPath, SourceFile]) -> Inspected:
        if path in files:
            return inspect_archive(self._packed(files[path]), str(path), settings_problem)
        inside = {each.relative_to(path): file for each, file in files.items() if each.is_relative_to(path)}
        try:
            manifest = self._manifest(inside, str(path))
        except InvalidArchive as error:
            return Inspected(problems=(str(error),))
        contents = {
            name: self._beginning(inside[PurePosixPath(name)], MAX_CHECKED + 1)
            for name in checked_files(manifest)
            if PurePosixPath(name) in inside
        }
        sizes = {name: file.size for name, file in inside.items()}
        found = inspected(manifest, sizes, contents, name=str(path), check=settings_problem)
        if PurePosixPath(MANIFEST) in inside:
            return found
        problems = (text.removeprefix(f"{path}: ").removesuffix(_PACK_AGAIN) for text in found.problems)
        return replace(found, problems=tuple(problems))

    def _manifest(self, inside: Mapping[PurePosixPath, SourceFile], name: str) -> Manifest:
        """Return the manifest of an unpacked archive; of a folder with a handler alone, the one that it is served with.

        The name of such a model is that of its service.
        """
        if file := inside.get(PurePosixPath(MANIFEST)):
            return parse_manifest(self._beginning(file, MAX_MANIFEST + 1), name)
        names = {str(path) for path in inside if len(path.parts) == 1}
        return Manifest(model_name="", model_version="1.0", **found_by_name(names))

    def _configuration(self, files: Mapping[PurePosixPath, SourceFile]) -> tuple[dict[str, str] | None, list[str]]:
        """Return the settings of config.properties, None without one, and what is wrong with them."""
        is_alone, name = _is_alone(files), PurePosixPath(CONFIG).name
        expected = name if is_alone else CONFIG
        file = files.get(PurePosixPath(expected))
        if file is None:
            elsewhere = [] if is_alone else [str(path) for path in files if path.name == name]
            return None, [f"{elsewhere[0]} has no effect; move it to {CONFIG}"] if elsewhere else []
        try:
            settings = parse_settings(self._beginning(file, MAX_CONFIG + 1), expected)
        except LayoutError as error:
            return {}, [str(error)]
        return {key: value for key, value in settings.items() if not (is_alone and key in OF_STORES)}, []

    def _beginning(self, file: SourceFile, size: int) -> bytes:
        with self._packed(file).open("rb") as stream:
            return stream.read(size)

    def _packed(self, file: SourceFile) -> _InParts | Path:
        return self._whole(file) if file.streamed else _InParts(self.source, file, self.retry)

    def _whole(self, file: SourceFile) -> Path:
        """Copy a file that cannot be read in parts to where it can."""
        place = self.scratch / str(file.path).replace("/", "_")
        if not place.exists():
            buffer = memoryview(bytearray(_BLOCK))
            with self.source.open(file, 0, file.size) as content, place.open("wb") as target:
                while count := content.readinto(buffer):
                    target.write(buffer[:count])
                    if target.tell() > (file.size or MAX_UNSIZED):
                        raise UnexpectedResponseError(f"{file.path} is longer than its server says; see its log")
        return place


class _InParts:
    """A file of a source, of which only the parts that are read are brought."""

    def __init__(self, source: Source, file: SourceFile, retry: Retry) -> None:
        self.name = file.path.name
        self._source = source
        self._file = file
        self._retry = retry
        self._block = lru_cache(_KEPT_BLOCKS)(self._bring)

    def open(self, mode: Literal["rb"], /) -> IO[bytes]:  # noqa: ARG002 - as a Path's
        return cast(IO[bytes], io.BufferedReader(_Parts(self._file.size, self._block)))

    def _bring(self, number: int) -> bytes:
        start = number * _BLOCK
        stop = min(start + _BLOCK, self._file.size)
        return self._retry.run(lambda: self._read(start, stop))

    def _read(self, start: int, stop: int) -> bytes:
        block = memoryview(bytearray(stop - start))
        filled = 0
        with self._source.open(self._file, start, stop) as content:
            while filled < len(block) and (count := content.readinto(block[filled:])):
                filled += count
        if filled < len(block):
            raise UnexpectedResponseError(f"{self._file.path} ended after {start + filled} of {stop} bytes; try again")
        return bytes(block)


class _Parts(io.RawIOBase):
    def __init__(self, size: int, block: Any) -> None:
        self._size = size
        self._block = block
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise OSError(errno.EINVAL, "a place before the file's beginning")  # as of any file
        self._position = start + offset
        return self._position

    def readinto(self, buffer: Any, /) -> int:
        if self._position >= self._size:
            return 0
        number, place = divmod(self._position, _BLOCK)
        part = self._block(number)[place : place + len(buffer)]
        buffer[: len(part)] = part
        self._position += len(part)
        return len(part)


def _no_model(files: Iterable[PurePosixPath]) -> str:
    endings = (*SUFFIXES, *ENDINGS)
    below = sorted(path.parent for path in files if path.name == HANDLER or path.name.endswith(endings))
    place = f"; there is one in its folder {quoted(str(below[0]))}, which is the one to name" if below else ""
    return f"there is no model in it: no {HANDLER}, and no {', '.join(endings)} at its top{place}"


def _is_alone(files: Mapping[PurePosixPath, SourceFile]) -> bool:
    """Return whether the files are one model with its handler, and no model store: its settings lie beside it."""
    has_store = (
        any(path.parts[0] in STORES if len(path.parts) > 1 else path.suffix == ".mar" for path in files)
        or PurePosixPath(CONFIG) in files
    )
    return not has_store and any(PurePosixPath(name) in files for name in (HANDLER, MANIFEST))


def _stores(settings: Mapping[str, str] | None) -> list[PurePosixPath]:
    """Return the folders that may be the model store, in the order in which they are looked for."""
    configured = store_below((settings or {}).get("model_store", "").strip() or STORES[0], _MOUNT)
    return list(dict.fromkeys(store for store in (configured, *map(PurePosixPath, STORES)) if store is not None))


def _archives(
    files: Mapping[PurePosixPath, SourceFile],
    stores: Sequence[PurePosixPath],
    is_archive: Callable[[SourceFile], bool],
) -> list[PurePosixPath]:
    """Return the archives at the top and in the stores, packed or not; the URI may name one as well.

    ``is_archive`` looks into a ``.tar.gz`` at the top, which may hold anything.
    """
    found = []
    for path, file in files.items():
        is_meant = file.exact or path.parent in stores
        if path.name.endswith(ENDINGS if is_meant else (".mar", ".tar.gz")):
            if is_meant or (path.parent == PurePosixPath() and (path.suffix == ".mar" or is_archive(file))):
                found.append(path)
        elif path.parts[-2:] == PurePosixPath(MANIFEST).parts:
            folder = path.parents[1]
            # Some tools pack a folder that holds the archive's.
            if {folder, folder.parent, folder.parent.parent} & {PurePosixPath(), *stores}:
                found.append(folder)
    return sorted(found)


def _served(
    settings: Mapping[str, str] | None, archives: Sequence[PurePosixPath], stores: Sequence[PurePosixPath]
) -> tuple[set[PurePosixPath], list[str]]:
    """Return the archives that a configuration serves, and what it asks for in vain."""
    if settings is None:
        return set(archives), []
    there = {archive.parent for archive in archives}
    store = next((each for each in stores if each in there), None)
    if store is None:
        return set(), [f"there is no archive in the model store {stores[0]}; put the .mar files there"]
    in_store = {archive.name: archive for archive in archives if archive.parent == store}
    try:
        references = requested(settings)
    except LayoutError as error:
        return set(), [str(error)]
    if references is None:
        return set(in_store.values()), []
    served, left_out = select(references, in_store)
    missing = [one for one in (*served, *left_out) if not one.is_remote and one.archive not in in_store]
    return {in_store[one.archive] for one in served if one.archive in in_store}, [
        not_there(one, store, in_store) for one in missing
    ]


def _fields(found: Inspected) -> Document:
    """Return an archive's fields as the document has them."""
    manifest = asdict(found.manifest) if found.manifest else {}
    names = {
        "model_name": "model", "model_version": "version", "handler": "handler", "runtime": "runtime",
        "model_file": "modelFile", "serialized_file": "serializedFile", "requirements_file": "requirementsFile",
        "config_file": "configFile",
    }  # fmt: skip
    fields = {name: manifest[field] for field, name in names.items() if manifest.get(field)}
    return {
        **fields,
        **({"entry": found.entry} if found.entry else {}),
        **({"settings": settings} if (settings := of_archive(found.settings)) else {}),
        "requirements": list(found.requirements),
        "files": found.files,
        "unpackedBytes": found.size,
        "problems": list(found.problems),
    }


def _size(path: PurePosixPath, files: Mapping[PurePosixPath, SourceFile]) -> int:
    if path in files:
        return files[path].size
    return sum(file.size for each, file in files.items() if each.is_relative_to(path))


if __name__ == "__main__":
    leave(main())
