"""An archive that would do harm when it is unpacked is refused with its name."""

from __future__ import annotations

import stat
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import pytest

from data_plane.model_server.errors import ModelFailed
from tests.support.model_folder import write_mar
from torchserve_compat.store.safety import check_mar


def add(archive: Path, member: str | ZipInfo, content: bytes = b"") -> Path:
    with ZipFile(archive, "a", ZIP_DEFLATED) as members:
        members.writestr(member, content)
    return archive


def link() -> ZipInfo:
    member = ZipInfo("weights.pt")
    member.external_attr = (stat.S_IFLNK | 0o777) << 16
    return member


@pytest.mark.parametrize(
    ("member", "message"),
    [
        ("../escaped.py", r"^bad.mar holds '../escaped.py', a path that leads out of it"),
        ("a/../../escaped.py", "leads out of it"),
        ("..\\escaped.py", "leads out of it"),
        ("/escaped.py", "leads out of it"),
        (link(), "^bad.mar holds 'weights.pt', which is no plain file"),
    ],
)
def test_what_leads_out_of_the_archive_is_refused(tmp_path: Path, member: str | ZipInfo, message: str) -> None:
    with pytest.raises(ModelFailed, match=message):
        check_mar(add(write_mar(tmp_path / "bad.mar"), member))


def test_a_bomb_is_refused(tmp_path: Path) -> None:
    archive = add(write_mar(tmp_path / "bad.mar"), "weights.pt", bytes(257 * 2**20))

    with pytest.raises(ModelFailed, match=r"bad\.mar unpacks to more than 200 times its size"):
        check_mar(archive)


@pytest.mark.parametrize(
    "member",
    [
        "a..b/c.py",
        "weights:v1.bin",
        "C:/c.py",
        ".hidden/..c",
        "two words.txt",
        "größe.json",
        "a\\b.py",
        "...",
        "~/c.py",
    ],
)
def test_a_name_that_is_only_unusual_passes(tmp_path: Path, member: str) -> None:
    check_mar(add(write_mar(tmp_path / "good.mar"), member))


def test_what_torchserve_unpacks_by_itself_is_left_to_it(tmp_path: Path) -> None:
    check_mar(tmp_path)  # a folder
    check_mar(tmp_path / "archive.tar.gz")
