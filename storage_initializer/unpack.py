"""Unpacks a download that is one archive, strictly, and only into its folder.

No links are created: a link to a file of the archive becomes a second name of that file, and any other is refused. So
no path in the folder leads out of it, whatever the order of the entries. Archives in the archive stay packed. An
archive that holds nothing but another one is refused, as no server could use it.
"""

from __future__ import annotations

import logging
import shutil
from pathlib import Path, PurePosixPath

from model_archive.archive import ENDINGS, check_archive
from model_archive.contents import Contents
from model_archive.errors import InvalidArchive, UnsafeArchive
from model_archive.tars import open_tar
from model_archive.text import format_size, quoted
from model_archive.zips import open_zip
from storage_initializer.errors import EmptySourceError, NoSpaceError
from storage_initializer.kinds import is_zip, lone_archive
from storage_initializer.limits import MAX_LINKS
from storage_initializer.sharing import share_file

log = logging.getLogger(__name__)

_BUFFER_BYTES = 1 << 20
_REPACK = "pack the model's files again"


def unpack(archive: Path, folder: Path) -> None:
    """Unpack into ``folder``, which is created; callers remove it if this raises."""
    size = archive.stat().st_size
    log.info("unpacking %s (%s)", archive.name, format_size(size))
    folder.mkdir(parents=True)
    contents = Contents(archive.name, size=size, cure=_REPACK)
    files = _unpack(archive, folder, contents)
    if not files:
        raise EmptySourceError(f"there is no file in {archive.name}; {_REPACK}")
    inner = lone_archive({path: path for path in files})
    if inner and not _is_model(folder / inner):
        raise UnsafeArchive(
            f"{archive.name} holds nothing but another archive, {quoted(str(inner))}; pack the model's files themselves"
        )
    log.info("unpacked %d files, %s", len(files), format_size(contents.size))


def _is_model(archive: Path) -> bool:
    """Return whether TorchServe loads the archive packed: a ``.tar.gz`` may be a model archive as well."""
    if not archive.name.endswith(ENDINGS):
        return False
    try:
        check_archive(archive, archive.name)
    except InvalidArchive:
        return False
    return True


def _unpack(archive: Path, folder: Path, contents: Contents) -> set[PurePosixPath]:
    room = shutil.disk_usage(folder).free
    files: set[PurePosixPath] = set()
    links: dict[PurePosixPath, PurePosixPath] = {}
    # A tar is known by its content: a server that applies Content-Encoding has decompressed a .tar.gz.
    is_named_zip = archive.name.lower().endswith(".zip")
    with (
        open_zip(archive, contents) if is_named_zip or is_zip(archive) else open_tar(archive, contents, is_model=False)
    ) as members:
        for member in members:
            if contents.size > room:
                raise NoSpaceError(
                    f"it unpacks to {format_size(contents.size)} or more, but {folder} has {format_size(room)} free; "
                    "use a bigger volume or node"
                )
            if member.open:
                with member.open() as content, _place(folder, member.path).open("xb") as file:
                    shutil.copyfileobj(content, file, _BUFFER_BYTES)
                (folder / member.path).chmod(0o755 if member.is_executable else 0o644)
                files.add(member.path)
            elif member.link:
                links[member.path] = member.link
    for path in links:
        if (source := _follow(path, links)) not in files:
            raise contents.refusal(f"holds a link, {quoted(str(path))}, to what is not a file in it")
        share_file(folder / source, _place(folder, path), (folder / source).stat().st_mode)
    return files | links.keys()


def _follow(path: PurePosixPath, links: dict[PurePosixPath, PurePosixPath]) -> PurePosixPath:
    for _ in range(MAX_LINKS):
        if path not in links:
            break
        path = links[path]
    return path


def _place(folder: Path, path: PurePosixPath) -> Path:
    place = folder / path
    place.parent.mkdir(parents=True, exist_ok=True)
    return place
