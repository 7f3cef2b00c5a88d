"""Looks into an archive without unpacking it: what it says of itself, and what the runtimes would say of it."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from model_archive.archive import open_archive
from model_archive.contents import ArchiveFile
from model_archive.errors import InvalidArchive
from model_archive.handlers import (
    content_problem,
    entry_of,
    entry_problem,
    leaves_weights,
    model_file_problem,
    stock_handler_of,
    weights_problem,
)
from model_archive.limits import MAX_CHECKED, MAX_MANIFEST, MAX_REQUIREMENTS
from model_archive.manifest import (
    MANIFEST,
    RUNTIMES,
    STOCK_HANDLERS,
    Manifest,
    handler_file,
    missing_manifest,
    parse_manifest,
)
from model_archive.text import quoted

_PACK_AGAIN = "add it, and pack it again"


@dataclass(frozen=True)
class Inspected:
    """``files`` and ``size`` are of the unpacked archive, and 0 where it cannot be read to its end.

    ``entry`` is what is called of the handler's module, such as ``class NAME``; empty where that is not certain.
    """

    manifest: Manifest | None = None
    entry: str = ""
    files: int = 0
    size: int = 0
    requirements: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    settings: bytes = b""
    """The beginning of its settings file."""


SettingsCheck = Callable[[bytes], str | None]
"""Says why an archive's own settings cannot be read. It needs a reader of YAML, which this package does without."""


def inspect_archive(file: ArchiveFile, name: str, check: SettingsCheck) -> Inspected:
    """Return what is in a ``.mar`` or ``.tar.gz``; what is wrong with it is among its problems. Raise OSError."""
    try:
        sizes, found = _read(file, {MANIFEST}, name, MAX_MANIFEST + 1)
        if MANIFEST not in found:
            raise missing_manifest(name)
        manifest = parse_manifest(found[MANIFEST], name)
        # A tar is read from its beginning for each file: which one is wanted is known only now.
        wanted = {path for path in checked_files(manifest) if PurePosixPath(path) in sizes}
        contents = _read(file, wanted, name, MAX_CHECKED + 1)[1] if wanted else {}
    except InvalidArchive as error:
        return Inspected(problems=(str(error),))
    return inspected(manifest, sizes, contents, name=name, check=check)


def inspected(
    manifest: Manifest,
    sizes: Mapping[PurePosixPath, int],
    contents: Mapping[str, bytes],
    *,
    name: str,
    check: SettingsCheck,
) -> Inspected:
    """Return what a model is; ``contents`` are the beginnings of its ``checked_files``."""
    why = handler_problem(manifest, contents.get, there=map(str, sizes))
    problems = (
        *_missing_files(manifest, sizes, name),
        *([f"{name}: {why}"] if why else []),
        *_problems_in(manifest, contents.get, name, check),
    )
    requirements = _requirement_lines(contents.get(manifest.requirements_file or "", b"")[:MAX_REQUIREMENTS])
    entry, settings = _entry(manifest, contents.get), contents.get(manifest.config_file or "", b"")
    return Inspected(manifest, entry, len(sizes), sum(sizes.values()), requirements, problems, settings)


def _entry(manifest: Manifest, content_of: Callable[[str], bytes | None]) -> str:
    try:
        tree = _tree("handler", handler_file(manifest.handler), content_of)
    except _NoPython:
        return ""
    return entry_of(manifest.handler, tree) if tree else ""


def _requirement_lines(content: bytes) -> tuple[str, ...]:
    """Return the lines of a requirements file that are not comments."""
    lines = (line.partition("#")[0].strip() for line in content.decode(errors="replace").splitlines())
    return tuple(filter(None, lines))


def _read(
    file: ArchiveFile, wanted: Collection[str], name: str, limit: int
) -> tuple[Mapping[PurePosixPath, int], Mapping[str, bytes]]:
    """Return the sizes of all files, and the beginnings of those that are wanted."""
    sizes: dict[PurePosixPath, int] = {}
    contents: dict[str, bytes] = {}
    names = {PurePosixPath(path): path for path in wanted}
    with open_archive(file, name) as members:
        for member in members:
            if member.open:
                sizes[member.path] = member.size
                if member.path in names:
                    with member.open() as stream:
                        contents[names[member.path]] = stream.read(limit)
    return sizes, contents


def checked_files(manifest: Manifest) -> Iterator[str]:
    """Return the files that are looked into: the handler, the model file, the settings and the requirements."""
    if handler := handler_file(manifest.handler):
        yield PurePosixPath(handler).name
    yield from filter(None, (manifest.model_file, manifest.config_file, manifest.requirements_file))


def _problems_in(
    manifest: Manifest, content_of: Callable[[str], bytes | None], name: str, check: SettingsCheck
) -> Iterator[str]:
    """Return what is wrong with the settings and the requirements."""
    config = manifest.config_file
    if config and (why := check((content_of(config) or b"")[: MAX_CHECKED + 1])):
        yield f"{name}: its settings, {quoted(config)}, are {why}; correct them, and pack it again"
    file = manifest.requirements_file
    content = (content_of(file) or b"")[:MAX_REQUIREMENTS] if file else b""
    if file and not _is_text(content):
        yield f"{name}: its requirements, {quoted(file)}, are not text; write one package to a line, and pack it again"


def handler_problem(
    manifest: Manifest,
    content_of: Callable[[str], bytes | None],
    weights: Path | None = None,
    *,
    there: Iterable[str] = (),
) -> str | None:
    """Return why TorchServe cannot load the handler, or weights that it leaves to BaseHandler.

    Weights are judged by their name, and by what is in them where they are a file. ``there`` are all of its files.
    """
    try:
        tree = _tree("handler", handler_file(manifest.handler), content_of)
        if tree and (why := entry_problem(manifest.handler, tree)):
            return why
        if not leaves_weights(manifest, tree):
            return None
        network = _tree("model file", manifest.model_file, content_of)
        if network and (why := model_file_problem(manifest.model_file or "", network)):
            return why
        return weights_problem(manifest, there) or (content_problem(manifest, weights) if weights else None)
    except _NoPython as error:
        return str(error)


def reader_of(manifest: Manifest, content_of: Callable[[str], bytes | None]) -> str:
    """Return the handler that reads a model's requests: its own, or that of TorchServe to which its class leaves it."""
    try:
        tree = _tree("handler", handler_file(manifest.handler), content_of)
    except _NoPython:
        return manifest.handler
    return (stock_handler_of(manifest.handler, tree) if tree else "") or manifest.handler


class _NoPython(Exception):
    """A file is not Python; the text says where."""


def _tree(what: str, file: str | None, content_of: Callable[[str], bytes | None]) -> ast.Module | None:
    """Return a module; None for one that is not in the archive or too large. Raises _NoPython."""
    content = content_of(PurePosixPath(file).name) if file else None
    if not file or content is None or len(content) > MAX_CHECKED:
        return None
    try:
        with warnings.catch_warnings(action="ignore"):
            return ast.parse(content)
    except SyntaxError as error:
        why = f"line {error.lineno}: {error.msg}" if error.lineno else str(error.msg)
    except (ValueError, RecursionError, MemoryError):
        why = "it has null bytes, or is nested too deep"
    raise _NoPython(f"its {what} {quoted(file)} is not Python that compiles: {why}; correct it, and pack it again")


def _is_text(content: bytes) -> bool:
    """Whether the beginning of a file is UTF-8; its end may be in the middle of a character."""
    try:
        content.decode()
    except UnicodeDecodeError as error:
        return error.end == len(content) == MAX_REQUIREMENTS
    return b"\0" not in content


def _missing_files(manifest: Manifest, files: Container[PurePosixPath], name: str) -> Iterator[str]:
    """Return what the manifest names and the archive lacks, and what no runtime here serves."""
    handler = handler_file(manifest.handler)
    # The servers look for it at the top of the archive.
    if handler is not None and PurePosixPath(PurePosixPath(handler).name) not in files:
        yield (
            f"{name}: its handler {quoted(manifest.handler)} is neither in it nor one of TorchServe's own "
            f"({', '.join(STOCK_HANDLERS)}); {_PACK_AGAIN}"
        )
    for field, file in (
        ("modelFile", manifest.model_file),
        ("serializedFile", manifest.serialized_file),
        ("requirementsFile", manifest.requirements_file),
        ("configFile", manifest.config_file),
    ):
        if file and PurePosixPath(file) not in files:
            yield f"{name}: its model.{field}, {quoted(file)}, is not in it; {_PACK_AGAIN}"
    if manifest.runtime not in RUNTIMES[:2]:
        yield f"{name}: no runtime here serves {manifest.runtime}; use {' or '.join(RUNTIMES[:2])}"
