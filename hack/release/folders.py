"""A folder as an archive whose bytes depend on its files and the time of the release alone."""

from __future__ import annotations

import gzip
import tarfile
from datetime import datetime
from pathlib import Path


def pack(folder: Path, archive: Path, released: datetime) -> None:
    """Write the gzipped tar of a folder, with the folder's name before each path."""
    time = int(released.timestamp())

    def normalized(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.mtime, entry.mode = time, 0o644
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        return entry

    with (
        archive.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=time) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as opened,
    ):
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                opened.add(path, f"{folder.name}/{path.relative_to(folder).as_posix()}", filter=normalized)
