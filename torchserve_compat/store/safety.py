"""What an archive may not hold: paths out of its folder, links, bombs."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from data_plane.model_server.errors import ModelFailed
from torchserve_compat.store.archives import Kind, Member, open_archive

# Weights hardly compress; text does, up to about a hundredfold.
_MAX_RATIO = 200
_ALWAYS_ALLOWED_BYTES = 256 * 1024 * 1024
_MAX_FILES = 100_000
_MAKE = "Make it with torch-model-archiver"


class Allowance:
    """How much more one archive may hold."""

    def __init__(self, archive: Path) -> None:
        self._archive = archive.name
        self._files = _MAX_FILES
        self._bytes = max(_ALWAYS_ALLOWED_BYTES, archive.stat().st_size * _MAX_RATIO)

    def check(self, member: Member) -> PurePosixPath:
        """Where it belongs, below the folder that the archive is unpacked to; raises ModelFailed."""
        if member.kind == "special":
            raise ModelFailed(f"{self._archive} holds {member.name!r}, which is no plain file; pack the file itself.")
        path = PurePosixPath(member.name.replace("\\", "/"))
        if not _stays_inside(path, member.kind):
            raise ModelFailed(f"{self._archive} holds {member.name!r}, a path that leads out of it. {_MAKE}.")
        self._files -= 1
        self._bytes -= member.size
        if self._files < 0:
            raise ModelFailed(f"{self._archive} holds more than {_MAX_FILES} files; that is no model. {_MAKE}.")
        if self._bytes < 0:
            raise ModelFailed(
                f"{self._archive} unpacks to more than {_MAX_RATIO} times its size; that is no model. {_MAKE}."
            )
        return path


def check_mar(archive: Path) -> None:
    """Raises ModelFailed, which names what is wrong with it. For a server that unpacks it itself, and looks less.

    Other archives are left to that server: to look into a .tar.gz is to unpack it.
    """
    if archive.suffix != ".mar" or not archive.is_file():
        return
    allowance = Allowance(archive)
    with open_archive(archive) as members:
        for member in members:
            allowance.check(member)


def _stays_inside(path: PurePosixPath, kind: Kind) -> bool:
    if not path.parts:  # the folder itself, as tar writes it down
        return kind == "folder"
    return not path.is_absolute() and ".." not in path.parts
