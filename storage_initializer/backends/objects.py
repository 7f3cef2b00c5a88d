"""What object stores share: the keys that a path stands for, and suggestions for one that does not exist. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from storage_initializer.errors import InitializerError, UnsafeSourceError
from storage_initializer.sources import Checksum, SourceFile, bounded, check_length
from storage_initializer.suggest import suggestion


@dataclass(frozen=True)
class Listed:
    """An object as its store lists it."""

    key: str
    size: int
    version: str
    checksum: Checksum | None = None
    streamed: bool = False

    @property
    def may_be_marker(self) -> bool:
        """Whether it may stand for a folder: some tools put an object without content where one is."""
        return not self.size and not self.streamed


def choose_files(path: str, list_objects: Callable[[str], Iterator[Listed]]) -> list[tuple[str, SourceFile]]:
    """Return the object of exactly this name, or else all below it as a folder: ``model`` never means ``model-hf/…``.

    ``list_objects`` yields the objects with a prefix, in the order of their names: the shortest comes first.
    """
    folder = path if not path or path.endswith("/") else f"{path}/"
    exact = []
    if folder != path and (listed := next(list_objects(path), None)) and listed.key == path:
        exact = [(path, replace(_file(PurePosixPath(path).name, listed), exact=True))]
        if not listed.may_be_marker:
            return exact
    # A key that ends in a slash is a marker in any case.
    objects = [listed for listed in bounded(list_objects(folder)) if not listed.key.endswith("/")]
    return _files(objects, folder) or exact


def _files(objects: Sequence[Listed], prefix: str) -> list[tuple[str, SourceFile]]:
    """Return the files of a folder, with their keys."""
    names = [listed.key.removeprefix(prefix) for listed in objects]
    folders = _folders(names)
    files = []
    for name, listed in zip(names, objects, strict=True):
        file = _file(name, listed)
        if name not in folders:
            files.append((listed.key, file))
        elif not listed.may_be_marker:
            raise UnsafeSourceError(f"the object {listed.key!r} has the name of a folder of others; rename it")
    return files


def _folders(names: Iterable[str]) -> set[str]:
    """Return every folder that one of the names is in."""
    folders: set[str] = set()
    for name in names:
        folder = name.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return folders


def nearest(path: str, names_below: Callable[[str], Iterator[str]]) -> str:
    """Suggest names for the first part of the path that does not exist."""
    wanted = path.rstrip("/")
    parent = ""
    try:
        for part in wanted.split("/"):
            below = list(names_below(parent))
            names = [name.removeprefix(parent).rstrip("/") for name in below]
            if not names and parent:
                return f"{parent.rstrip('/')} is an object, so nothing can be below it; end the path there"
            if names and part not in names:
                return suggestion(part, names)
            if path.endswith("/") and wanted in below:
                return f"{wanted} is an object, not a folder; leave out the slash at the end"
            parent += f"{part}/"
    except InitializerError:
        return "correct the path"
    return "put the model there first"


def _file(name: str, listed: Listed) -> SourceFile:
    path = PurePosixPath(name)
    if path.is_absolute() or not path.parts or {"..", "."} & set(name.split("/")) or "\0" in name or "//" in name:
        raise UnsafeSourceError(f"the object {listed.key!r} cannot be a file below the destination; rename it")
    check_length(path)
    return SourceFile(path, listed.size, version=listed.version, checksum=listed.checksum, streamed=listed.streamed)
