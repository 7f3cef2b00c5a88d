"""What object stores share: which keys a path means, and what a path that leads nowhere may have meant. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from storage_initializer.backends import Checksum, SourceFile
from storage_initializer.errors import InitializerError, UnsafeSourceError
from storage_initializer.suggest import suggestion


@dataclass(frozen=True)
class Listed:
    """An object as its store lists it."""

    key: str
    size: int
    version: str
    checksum: Checksum | None = None
    streamed: bool = False


def choose_files(path: str, list_objects: Callable[[str], Iterator[Listed]]) -> list[tuple[str, SourceFile]]:
    """The object of just this name, or else all below it as a folder: ``model`` never means ``model-hf/…``.

    ``list_objects`` gives those that begin with a prefix, in the order of their names: the shortest comes first.
    """
    folder = path if not path or path.endswith("/") else f"{path}/"
    if folder != path and (listed := next(list_objects(path), None)) and listed.key == path:
        return [(path, _file(PurePosixPath(path).name, listed))]
    return [
        (listed.key, _file(listed.key.removeprefix(folder), listed))
        for listed in list_objects(folder)
        # A key that ends in a slash is what some tools make of an empty folder.
        if not listed.key.endswith("/")
    ]


def nearest(path: str, names_below: Callable[[str], Iterator[str]]) -> str:
    """The nearest names at the first part of the path that leads nowhere."""
    wanted = path.rstrip("/")
    parent = ""
    try:
        for part in wanted.split("/"):
            names = [name.removeprefix(parent).rstrip("/") for name in names_below(parent)]
            if not names and parent:
                return f"{parent.rstrip('/')} is an object, so nothing can be below it; end the path there"
            if names and part not in names:
                return suggestion(part, names)
            parent += f"{part}/"
    except InitializerError:
        return "correct the path"
    return "put the model there first"


def _file(name: str, listed: Listed) -> SourceFile:
    path = PurePosixPath(name)
    if path.is_absolute() or not path.parts or {"..", "."} & set(name.split("/")) or "\0" in name or "//" in name:
        raise UnsafeSourceError(f"the object {listed.key!r} cannot be a file below the destination; rename it")
    return SourceFile(path, listed.size, version=listed.version, checksum=listed.checksum, streamed=listed.streamed)
