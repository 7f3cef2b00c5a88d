"""Archives with anything done to their bytes: unpacked, or refused with one line; nothing is written elsewhere."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_archive.archive import check_archive, read_manifest
from model_archive.errors import InvalidArchive
from storage_initializer.errors import EmptySourceError, NoSpaceError
from storage_initializer.unpack import unpack
from tests.support.fuzz import damaged
from tests.support.hostile_archives import member, tar_of
from tests.support.model_folder import write_mar

SEEDS = st.integers(0, 2**64)
_TOKENS = (
    b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07", b"../", b"/", b"..", b"\\", b"C:",
    b"\x00", b"\xff" * 4,
    b"\xff" * 8, b"\x00" * 512, b"1", b"2", b"5", b"7", b"L", b"K", b"x", b"g", b"S", b"777777777777",
    b"\x80\x00\x00\x00\x7f",
    b"18 path=../../evil\n", b"25 GNU.sparse.major=1\n25 GNU.sparse.minor=0\n", b"GNU.sparse.size=99999999999\n",
    b"handler.py",
)  # fmt: skip
PLACE = ("a", "b", "c")  # the folder's way down, so that a path may lead up


def _zip() -> bytes:
    file = io.BytesIO()
    with ZipFile(file, "w", ZIP_DEFLATED) as archive:
        archive.writestr("model/", b"")
        archive.writestr("model/weights.pt", b"weights" * 50)
        archive.writestr("config.properties", b"a=b\n")
        archive.writestr("w\N{LATIN SMALL LETTER O WITH DIAERESIS}rter.txt", b"x")
    return file.getvalue()


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[bytes]]:
    """Of each ending, what is damaged."""
    folder = tmp_path_factory.mktemp("good")
    tar_of(
    member("bert/model.pt"), member("bert/link", tarfile.SYMTYPE, "model.pt"), member("bert/hard",
    tarfile.LNKTYPE, "bert/model.pt"),
    member("bert/" + "x" * 200), member("bert/p", path="bert/other", comment="x" * 600), member("bert/MAR-INF",
    tarfile.DIRTYPE),
    )(folder / "m.tar")  # fmt: skip
    tar = (folder / "m.tar").read_bytes()
    mar = write_mar(folder / "m.mar").read_bytes()
    return {".zip": [_zip()], ".mar": [mar, _zip()], ".tar": [tar], ".tar.gz": [tar], ".tgz": [gzip.compress(tar, 1)]}


def refusal(read: Callable[[], object]) -> str:
    """Return the reason for which it is refused, or nothing."""
    try:
        read()
    except (InvalidArchive, EmptySourceError, NoSpaceError) as refused:
        return str(refused)
    return ""


def tree(folder: Path) -> list[str]:
    return sorted(
        str(Path(at, name).relative_to(folder)) for at, folders, files in os.walk(folder) for name in (*folders, *files)
    )


@given(SEEDS, st.sampled_from([".zip", ".mar", ".tar", ".tar.gz", ".tgz"]))
def test_an_archive_is_unpacked_into_its_folder_or_refused(
    good: dict[str, list[bytes]], seed: int, ending: str
) -> None:
    (content,) = damaged(good[ending], 1, seed, _TOKENS)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name, *PLACE)
        place.mkdir(parents=True)
        archive, target = place / f"m{ending}", place / "target"
        archive.write_bytes(gzip.compress(content, 1) if ending == ".tar.gz" else content)
        before = tree(Path(name))

        reason = refusal(lambda: unpack(archive, target))
        made = [path for path in tree(Path(name)) if path not in before]

        assert "\n" not in reason
        inside = str(Path(*PLACE, "target"))
        assert [path for path in made if path != inside and not path.startswith(f"{inside}/")] == []
        assert [path for path in target.rglob("*") if path.is_symlink() or not (path.is_file() or path.is_dir())] == []


@given(SEEDS, st.sampled_from([".mar", ".tar.gz"]))
def test_a_model_archive_has_a_manifest_or_is_refused(good: dict[str, list[bytes]], seed: int, ending: str) -> None:
    (content,) = damaged(good[ending], 1, seed, _TOKENS)
    with tempfile.TemporaryDirectory() as name:
        archive = Path(name, f"m{ending}")
        archive.write_bytes(gzip.compress(content, 1) if ending == ".tar.gz" else content)
        for read in (check_archive, read_manifest):
            assert "\n" not in refusal(lambda read=read: read(archive, archive.name))
