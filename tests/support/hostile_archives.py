"""Archives that were made to do harm, or came to harm, each by a builder, with the reason for which it is refused."""

from __future__ import annotations

import gzip
import io
import stat
import struct
import tarfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZipFile, ZipInfo

LIMITS = {"MAX_ENTRIES": 20, "HARMLESS_SIZE": 1 << 20}
"""For the corpus: the true ones would take seconds to exceed."""

_EVIL = b"evil"
_BLOCK = 512
_LOCAL_HEADER, _DIRECTORY_ENTRY, _DIRECTORY_END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"


@dataclass(frozen=True)
class Hostile:
    """``reason`` is what follows the archive's name; ``{size}`` in it is its size in bytes, ``{weight}`` for people."""

    title: str
    file: str
    write: Callable[[Path], None]
    reason: str


# --- builders ----------------------------------------------------------------------------------------

Entry = tuple[str | ZipInfo, bytes]


def zip_of(*entries: Entry) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with ZipFile(path, "w", ZIP_DEFLATED) as archive, warnings.catch_warnings(action="ignore"):
            for entry, content in entries:
                archive.writestr(entry, content)

    return write


def tar_of(*members: tarfile.TarInfo, content: bytes = _EVIL) -> Callable[[Path], None]:
    """Regular members hold ``content``."""

    def write(path: Path) -> None:
        with tarfile.open(path, "w:gz" if path.suffix in (".gz", ".tgz") else "w") as archive:
            for member in members:
                if member.isreg():
                    member.size = len(content)
                archive.addfile(member, io.BytesIO(content))

    return write


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", **headers: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.pax_headers = kind, target, headers
    return info


def edited(write: Callable[[Path], None], edit: Callable[[bytearray], None]) -> Callable[[Path], None]:
    """The archive that ``write`` makes, its bytes changed."""

    def write_edited(path: Path) -> None:
        write(path)
        content = bytearray(path.read_bytes())
        edit(content)
        path.write_bytes(content)

    return write_edited


def set_at(mark: bytes, offset: int, value: bytes) -> Callable[[bytearray], None]:
    """Bytes from the first ``mark``."""

    def edit(content: bytearray) -> None:
        start = content.index(mark) + offset
        content[start : start + len(value)] = value

    return edit


def special_zip_entry(kind: int) -> ZipInfo:
    info = ZipInfo("weights.pt")
    info.external_attr = (kind | 0o777) << 16
    return info


def bzipped_entry() -> ZipInfo:
    info = ZipInfo("weights.pt")
    info.compress_type = ZIP_BZIP2
    return info


def raw(content: bytes) -> Callable[[Path], None]:
    return lambda path: _ignore(path.write_bytes(content))


def _ignore(_: object) -> None: ...


def _header(kind: bytes, size: int, name: str = "evil") -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


def _tar_gz(*parts: bytes) -> Callable[[Path], None]:
    return raw(gzip.compress(b"".join(parts), 1))


def _hide_an_entry(content: bytearray) -> None:
    """Between the last entry and the directory: a header that only a reader without the directory meets."""
    hidden = io.BytesIO()
    with ZipFile(hidden, "w") as archive:
        archive.writestr("../evil", _EVIL)
    smuggled = hidden.getvalue().partition(_DIRECTORY_ENTRY)[0]
    directory = content.index(_DIRECTORY_ENTRY)
    content[directory:directory] = smuggled
    end = content.index(_DIRECTORY_END)
    content[end + 16 : end + 20] = struct.pack("<I", directory + len(smuggled))


def _lead_to_one_entry(content: bytearray) -> None:
    """The directory's second entry is where its first is."""
    second = content.index(_DIRECTORY_ENTRY, content.index(_DIRECTORY_ENTRY) + 1)
    content[second + 42 : second + 46] = bytes(4)
    content[second + 20 : second + 24] = content[content.index(_DIRECTORY_ENTRY) + 20 :][:4]


def _flip_the_last_bit_of_the_content(content: bytearray) -> None:
    content[content.index(_DIRECTORY_ENTRY) - 1] ^= 1


def _break_gzips_checksum(content: bytearray) -> None:
    content[-8] ^= 1


def put_something_before(content: bytearray) -> None:
    content[:0] = bytes(99)


def keep(count: int) -> Callable[[bytearray], None]:
    def edit(content: bytearray) -> None:
        del content[count:]

    return edit


def cut(count: int) -> Callable[[bytearray], None]:
    def edit(content: bytearray) -> None:
        del content[-count:]

    return edit


def _hide_behind_a_nul(content: bytearray) -> None:
    content[:] = content.replace(b"evil_.py", b"evil\0.py")


def _break_the_second_header(content: bytearray) -> None:
    content[2 * _BLOCK + 148] ^= 1


# --- the corpus --------------------------------------------------------------------------------------


def _refused(what: str) -> str:
    return f"{what}; pack the model's files again"


def _hostile(what: str) -> str:
    return f"{what}; do not use it, pack the model's files again"


def _damaged(how: str) -> str:
    return f"{how}; copy it to the source again"


def _bad_tar(how: str, kind: str = "tar") -> str:
    return _damaged(f"is truncated or not a {kind} ({{size}} bytes: {how})")


def _outside(name: str) -> str:
    return _hostile(f"would unpack {name!r} outside of its folder")


def _invisible(name: str) -> str:
    return _refused(f"holds a name with invisible characters, {name!r}")


def _too_long(name: str) -> str:
    return _refused(f"holds a name that is too long, {name[:80]!r}…")


_NAMES = {
    **{
        name: _outside(name)
        for name in (
            "../evil", "a/../../evil", "a/..", "..", "/evil", "//evil", "..\\evil", "a\\..\\..\\evil", "\\evil",
            "C:/evil", "C:evil", "．．/evil", "..／evil",
        )
    },
    **{name: _invisible(name) for name in ("gnp.exe\u202e.py", "a\nb", "a\x1b[2Jb", "a\u200bb", "a\x7fb")},
    **{name: _too_long(name) for name in ("x" * 256, "ä" * 128, "/".join(["x" * 100] * 11))},
}  # fmt: skip
"""What every kind of archive can say."""

_PAIRS = {
    ("a", "a"): _refused("holds 'a' twice"),
    ("a/b", "a/./b"): _refused("holds 'a/b' twice"),
    ("a", "a/b"): _refused("holds 'a' as a file and as a folder"),
    ("a/b", "a"): _refused("holds 'a' as a file and as a folder"),
}

_LINKS = {
    (member("l", tarfile.SYMTYPE, "/etc/passwd"),): _hostile("holds a link out of its folder, 'l'"),
    (member("a/l", tarfile.SYMTYPE, "../../evil"),): _hostile("holds a link out of its folder, 'a/l'"),
    (member("l", tarfile.LNKTYPE, "../evil"),): _hostile("holds a link out of its folder, 'l'"),
    (member("l", tarfile.LNKTYPE, "/etc/passwd"),): _hostile("holds a link out of its folder, 'l'"),
    (member("d", tarfile.SYMTYPE, ".."), member("d/evil")): _hostile("holds a link out of its folder, 'd'"),
    (member("d", tarfile.SYMTYPE, "e"), member("d/evil")): _refused("holds 'd' as a file and as a folder"),
    (member("e/x"), member("d", tarfile.SYMTYPE, "e")): _refused("holds a link, 'd', to what is not a file in it"),
    (member("l", tarfile.SYMTYPE, "gone"),): _refused("holds a link, 'l', to what is not a file in it"),
    (member("l", tarfile.SYMTYPE, "l"),): _refused("holds a link, 'l', to what is not a file in it"),
}

_DEVICES = {"a character device": tarfile.CHRTYPE, "a disk": tarfile.BLKTYPE, "a pipe": tarfile.FIFOTYPE}
_SPECIAL = {"a link": stat.S_IFLNK, "a pipe": stat.S_IFIFO, "a disk": stat.S_IFBLK}

_ONE_FILE = zip_of(("weights.pt", b"weights" * 100))
_TOO_MANY = _hostile("holds more than 20 files and folders")
_BOMB = _hostile("has {weight} and claims to unpack to 2.0 MiB or more")
_HUGE_HEADER = _hostile("has a header that is too large")
_STRANGELY_PACKED = _refused("holds 'weights.pt' encrypted, or packed in another way than by deflate")
_LYING_SPARSE = {"GNU.sparse.map": "0,1", "GNU.sparse.size": "1099511627776"}

_ZIPS = [
    *(Hostile(ascii(name)[:24], "m.zip", zip_of((name, _EVIL)), reason) for name, reason in _NAMES.items()),
    *(
        Hostile(ascii(pair), "m.zip", zip_of(*((name, _EVIL) for name in pair)), reason)
        for pair, reason in _PAIRS.items()
    ),
    *(
        Hostile(title, "m.zip", zip_of((special_zip_entry(kind), b"/etc/passwd")),
                _refused("holds a link or device, 'weights.pt'"))
        for title, kind in _SPECIAL.items()
    ),
    Hostile("a name that goes on after a NUL", "m.zip", edited(zip_of(("evil_.py", _EVIL)), _hide_behind_a_nul),
            _outside("evil\0.py")),
    Hostile("too many files", "m.zip", zip_of(*((str(number), b"") for number in range(21))), _TOO_MANY),
    Hostile("too many folders", "m.zip", zip_of(("/".join("abcdefghijklmnopqrstu"), b"")), _TOO_MANY),
    Hostile("a bomb", "m.zip", zip_of(("weights.pt", bytes(2 << 20))), _BOMB),
    Hostile("a size that lies", "m.zip", edited(_ONE_FILE, set_at(_DIRECTORY_ENTRY, 24, b"\x09\0\0\0")),
            _damaged("is damaged (Bad CRC-32 for file 'weights.pt')")),
    Hostile("an entry before its beginning", "m.zip", edited(_ONE_FILE, set_at(_DIRECTORY_END, 16, b"\xff\xff\0\0")),
            _damaged("is damaged (an entry before its beginning)")),
    Hostile("two names for an entry", "m.zip", edited(_ONE_FILE, set_at(_LOCAL_HEADER, 30, b"../evil.py")),
            _damaged("is damaged (File name in directory 'weights.pt' and header b'../evil.py' differ.)")),
    Hostile("an endless directory", "m.zip",
            raw(bytes(17 << 20) + _DIRECTORY_END + struct.pack("<8xII2x", 17 << 20, 0)),
            _hostile("has a directory that is too large")),
    Hostile("a directory that starts too early", "m.zip", edited(_ONE_FILE, set_at(_DIRECTORY_END, 12, b"\0\0\0\x7f")),
            _damaged("is damaged (Bad offset for central directory)")),
    Hostile("encrypted", "m.zip", edited(_ONE_FILE, set_at(_DIRECTORY_ENTRY, 8, b"\x01")), _STRANGELY_PACKED),
    Hostile("bzip2", "m.zip", zip_of((bzipped_entry(), _EVIL)), _STRANGELY_PACKED),
    Hostile("a flipped bit", "m.zip", edited(zip_of((ZipInfo("w"), _EVIL)), _flip_the_last_bit_of_the_content),
            _damaged("is damaged (Bad CRC-32 for file 'w')")),
    Hostile("truncated", "m.zip", edited(_ONE_FILE, cut(40)),
            _damaged("is truncated: after {size} bytes the zip directory is missing")),
    Hostile("empty", "m.zip", raw(b""), _damaged("is empty (0 bytes)")),
    Hostile("a page instead", "m.zip", raw(b"<html>Sign in</html>"), _damaged("is not a zip archive (20 bytes)")),
]  # fmt: skip

_TARS = [
    *(Hostile(ascii(name)[:24], "m.tgz", tar_of(member("x", path=name)), reason) for name, reason in _NAMES.items()),
    *(Hostile(ascii(pair), "m.tar.gz", tar_of(*map(member, pair)), reason) for pair, reason in _PAIRS.items()),
    *(
        Hostile(f"a link to {members[-1].linkname}", "m.tar", tar_of(*members), reason)
        for members, reason in _LINKS.items()
    ),
    *(
        Hostile(title, "m.tar", tar_of(member("d", kind)), _refused("holds a device, 'd'"))
        for title, kind in _DEVICES.items()
    ),
    Hostile("too many files", "m.tar.gz", tar_of(*(member(str(number)) for number in range(21))), _TOO_MANY),
    Hostile("a bomb", "m.tar.gz", tar_of(member("weights.pt"), content=bytes(2 << 20)), _BOMB),
    Hostile("a bomb after the end", "m.tar.gz", _tar_gz(_header(tarfile.REGTYPE, 0), bytes(2 << 20)),
            _hostile("has {weight} and claims to unpack to 1.8 MiB or more")),
    Hostile("a header that is a bomb", "m.tar.gz", _tar_gz(_header(tarfile.XHDTYPE, 1 << 19), bytes(1 << 19)),
            _HUGE_HEADER),
    Hostile("a global header that is a bomb", "m.tar.gz", _tar_gz(_header(tarfile.XGLTYPE, 8 << 30)), _HUGE_HEADER),
    Hostile("a name that is a bomb", "m.tar.gz", _tar_gz(_header(tarfile.GNUTYPE_LONGNAME, 1 << 30)), _HUGE_HEADER),
    Hostile("headers of headers", "m.tar.gz", _tar_gz(_header(tarfile.XGLTYPE, 0) * 2000), _HUGE_HEADER),
    Hostile("holes", "m.tar.gz", _tar_gz(_header(tarfile.GNUTYPE_SPARSE, 0), bytes(1024)),
            _refused("holds 'evil' with holes")),
    Hostile("holes by a header", "m.tar", tar_of(member("w", **_LYING_SPARSE)), _refused("holds 'w' with holes")),
    Hostile("a size below zero", "m.tar", tar_of(member("w", size="-4096")), _bad_tar("a negative size")),
    Hostile("no end", "m.tar", edited(tar_of(member("w")), keep(1024)), _bad_tar("no end mark")),
    Hostile("a broken header", "m.tar", edited(tar_of(member("a"), member("b")), _break_the_second_header),
            _bad_tar("no end mark")),
    Hostile("a content cut short", "m.tar", edited(tar_of(member("w")), keep(514)),
            _bad_tar("unexpected end of data")),
    Hostile("a broken checksum", "m.tar.gz", edited(_tar_gz(bytes(1024)), _break_gzips_checksum),
            _bad_tar("CRC check failed 0xefb5af2f != 0xefb5af2e", "tar.gz")),
    Hostile("truncated", "m.tgz", edited(tar_of(member("w")), cut(10)),
            _bad_tar("Compressed file ended before the end-of-stream marker was reached", "tar.gz")),
    Hostile("empty", "m.tar.gz", raw(b""), _bad_tar("empty file")),
    Hostile("a page instead", "m.tar", raw(b"<html>Sign in</html>"), _bad_tar("truncated header")),
]  # fmt: skip

CORPUS = (*_ZIPS, *_TARS)

AMBIGUOUS = {
    "entries that share bytes": edited(zip_of(("a", _EVIL), ("b", _EVIL)), _lead_to_one_entry),
    "an entry that reaches too far": edited(_ONE_FILE, set_at(_DIRECTORY_ENTRY, 20, b"\xff\xff\0\0")),
    "an entry that is not in the directory": edited(_ONE_FILE, _hide_an_entry),
    "something before it": edited(_ONE_FILE, put_something_before),
}
"""Zips whose directory and headers do not agree, which versions of Python refuse or read by the directory."""
