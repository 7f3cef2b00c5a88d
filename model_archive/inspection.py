"""Looks into an archive without unpacking it: what it says of itself, and what the runtimes would say of it."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from model_archive.archive import open_archive
from model_archive.compression import Packed
from model_archive.errors import InvalidArchive
from model_archive.limits import MAX_MANIFEST, MAX_REQUIREMENTS
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
    """``files`` and ``size`` are of the unpacked archive, and 0 where it cannot be read to its end."""

    manifest: Manifest | None = None
    files: int = 0
    size: int = 0
    requirements: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def inspect_archive(file: Packed, name: str) -> Inspected:
    """Return what is in a ``.mar`` or ``.tar.gz``; what is wrong with it is among its problems. Raise OSError."""
    try:
        sizes, text = _read(file, MANIFEST, name, MAX_MANIFEST + 1)
        if text is None:
            raise missing_manifest(name)
        manifest = parse_manifest(text, name)
        problems = tuple(problems_of(manifest, sizes, name))
        # A tar is read from its beginning for each file: which one is wanted is known only now.
        wanted = manifest.requirements_file
        requirements = _read(file, wanted, name, MAX_REQUIREMENTS)[1] if wanted else None
    except InvalidArchive as error:
        return Inspected(problems=(str(error),))
    return Inspected(manifest, len(sizes), sum(sizes.values()), requirement_lines(requirements or b""), problems)


def requirement_lines(content: bytes) -> tuple[str, ...]:
    """Return the lines of a requirements file that are no comments."""
    lines = (line.partition("#")[0].strip() for line in content.decode(errors="replace").splitlines())
    return tuple(filter(None, lines))


def _read(file: Packed, wanted: str, name: str, limit: int) -> tuple[Mapping[PurePosixPath, int], bytes | None]:
    """Return the sizes of all files, and the beginning of the one that is wanted."""
    sizes: dict[PurePosixPath, int] = {}
    content = None
    with open_archive(file, name) as members:
        for member in members:
            if member.open:
                sizes[member.path] = member.size
                if member.path == PurePosixPath(wanted):
                    with member.open() as stream:
                        content = stream.read(limit)
    return sizes, content


def problems_of(manifest: Manifest, files: Container[PurePosixPath], name: str) -> Iterator[str]:
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
    if handler is None and STOCK_HANDLERS[manifest.handler] and not (manifest.serialized_file or manifest.model_file):
        yield f"{name}: TorchServe's {manifest.handler} has no weights to load; {_PACK_AGAIN}"
    if manifest.runtime not in RUNTIMES[:2]:
        yield f"{name}: no runtime here serves {manifest.runtime}; use {' or '.join(RUNTIMES[:2])}"
