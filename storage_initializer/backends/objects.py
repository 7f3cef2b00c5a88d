"""What object stores share: the keys that a path stands for, and suggestions for one that does not exist. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from storage_initializer.errors import AccessDeniedError, InitializerError, UnsafeSourceError
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


def choose_files(
    path: str, list_folder: Callable[[str], Iterable[Listed]], find: Callable[[str], Listed | None]
) -> list[tuple[str, SourceFile]]:
    """Return the object of exactly this name, or else all below it as a folder: ``model`` never means ``model-hf/…``.

    ``list_folder`` returns the objects below a folder, ``find`` the object of a name.
    """
    below = files_below(path.rstrip("/"), list_folder(path))
    if not path or path.endswith("/"):
        return below
    try:
        found = find(path)
    except AccessDeniedError:
        # Who may read a folder's objects need not be allowed to read one of its name.
        if not below:
            raise
        return below
    if found is None or (below and found.may_be_marker):
        return below
    return [(path, replace(_file(PurePosixPath(path).name, found), exact=True))]


def files_below(folder: str, objects: Iterable[Listed]) -> list[tuple[str, SourceFile]]:
    """Return the files of a folder, with their keys. The object of the folder's own name is none of them."""
    prefix = f"{folder}/" if folder else ""
    listed = [each for each in bounded(objects) if each.key != folder]
    names = [each.key.removeprefix(prefix) for each in listed]
    folders = _folders(names)
    files = []
    for name, each in zip(names, listed, strict=True):
        file = _file(name, each)
        if name not in folders:
            files.append((each.key, file))
        elif not each.may_be_marker:
            raise UnsafeSourceError(f"the object {each.key!r} has the name of a folder of others; rename it")
    return files


def _folders(names: Iterable[str]) -> set[str]:
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
