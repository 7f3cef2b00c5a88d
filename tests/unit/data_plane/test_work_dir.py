"""The work directory is its server's alone, and named where that does not work."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from data_plane.model_server.errors import StartError
from data_plane.model_server.work_dir import claimed


def refusal(folder: Path) -> str:
    with pytest.raises(StartError) as refused, claimed(folder):
        pass
    return str(refused.value)


def test_a_folder_is_made_for_its_user_alone_and_free_again_afterwards(tmp_path: Path) -> None:
    for _ in range(2):
        with claimed(tmp_path / "a/b"):
            assert (tmp_path / "a/b").stat().st_mode & 0o777 == 0o700


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    with claimed(tmp_path):
        assert refusal(tmp_path) == f"{tmp_path} is in use by another server; choose another by --work-dir."


def test_an_error_while_the_folder_is_held_is_the_callers(tmp_path: Path) -> None:
    with pytest.raises(BlockingIOError), claimed(tmp_path):
        raise BlockingIOError


def test_a_path_that_can_be_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    for path in (tmp_path / "file", tmp_path / "file/folder", tmp_path / ("x" * 300)):
        assert re.fullmatch(r".* cannot be written to: .*; choose another by --work-dir\.", refusal(path))


@pytest.mark.parametrize("target", ["elsewhere", "nowhere"])
def test_a_link_that_was_put_there_first_is_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "work").symlink_to(tmp_path / target)

    assert refusal(tmp_path / "work") == (
        f"{tmp_path / 'work'} is a link, which anybody may have put there; choose another by --work-dir."
    )
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_link_in_place_of_the_lock_leaves_its_target_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "another file").write_text("precious")
    (tmp_path / "work").mkdir(mode=0o700)
    (tmp_path / "work/lock").symlink_to(tmp_path / "another file")

    assert "cannot be written to" in refusal(tmp_path / "work")
    assert (tmp_path / "another file").read_text() == "precious"


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770, 0o702])
def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work").chmod(mode)

    assert refusal(tmp_path / "work") == (
        f"Others can write to {tmp_path / 'work'} (mode {mode:04o}), and this server runs what is in it; "
        "name a folder below it by --work-dir, or run chmod go-w on it."
    )


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = tmp_path.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)

    assert refusal(tmp_path) == (
        f"{tmp_path} belongs to user {owner}, and this server runs as user {owner + 1}; choose another by --work-dir."
    )
