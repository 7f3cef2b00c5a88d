"""What an archive may not hold, looked at before TorchServe unpacks it: paths out of its folder, links, bombs.

TorchServe's own words on the first are hard to find in its log, and it does not look for the others. A .tar.gz is left
to TorchServe: to look into one is to unpack it.
"""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path, PurePosixPath

from transformer_sdk.model_store.errors import ModelFailed

# Weights hardly compress; text does, up to about a hundredfold.
_MAX_RATIO = 200
_ALWAYS_ALLOWED_BYTES = 256 * 1024 * 1024
_MAKE = "Make it with torch-model-archiver."


def check_archive(archive: Path) -> None:
    """Raises ModelFailed, which names what is wrong with it."""
    if archive.suffix != ".mar" or not archive.is_file():
        return
    with zipfile.ZipFile(archive) as content:
        members = content.infolist()
    for member in members:
        path = PurePosixPath(member.filename.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts:
            raise ModelFailed(f"{archive.name} holds {member.filename!r}, a path that leads out of it. {_MAKE}")
        if stat.S_ISLNK(member.external_attr >> 16):
            raise ModelFailed(f"{archive.name} holds a link, {member.filename}; pack the file itself.")
    if sum(member.file_size for member in members) > max(_ALWAYS_ALLOWED_BYTES, archive.stat().st_size * _MAX_RATIO):
        raise ModelFailed(f"{archive.name} unpacks to more than {_MAX_RATIO} times its size; that is no model. {_MAKE}")
