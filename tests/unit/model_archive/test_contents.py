"""What an archive may hold, told before anything is unpacked. The hostile ones are a corpus of their own."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from model_archive import contents
from model_archive.contents import Contents
from model_archive.errors import UnsafeArchive


@pytest.fixture
def archive() -> Contents:
    return Contents("m.zip", size=1000, cure="pack it again")


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("weights.pt", "weights.pt"),
        ("./a/./b//c.py", "a/b/c.py"),
        ("a..b/...c/~d", "a..b/...c/~d"),
        ("from\\windows.py", "from/windows.py"),
        ("Modell für 模型 🤗.pt", "Modell für 模型 🤗.pt"),
        ("a/b:c", "a/b:c"),
        ("weights:v1.bin", "weights:v1.bin"),
        ("x" * 255, "x" * 255),
    ],
)
def test_an_ordinary_name_is_a_path_below_the_folder(archive: Contents, name: str, path: str) -> None:
    assert archive.add_file(name, 0) == PurePosixPath(path)


def test_folders_may_be_told_often_and_in_any_order(archive: Contents) -> None:
    archive.add_folder("./")
    archive.add_file("a/b/c", 0)
    archive.add_folder("a/b/")
    archive.add_folder("a")
    archive.add_file("a/b/d", 0)


def test_the_size_of_all_files_counts_and_a_large_archive_may_hold_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "HARMLESS_SIZE", 0)
    archive = Contents("m.zip", size=1000, cure="pack it again")

    archive.add_file("a", 120_000)
    archive.add_file("b", 80_000)
    with pytest.raises(UnsafeArchive, match=r"^m\.zip has 1000 B and claims to unpack to 195\.3 KiB or more; do not"):
        archive.add_file("c", 1)


def test_names_that_differ_in_case_are_two() -> None:
    archive = Contents("m.mar", size=1000, cure="make it again")

    archive.add_file("model.py", 0)
    archive.add_file("Model.py", 0)

    with pytest.raises(UnsafeArchive, match=r"^m\.mar holds 'Model.py' twice; make it again$"):
        archive.add_file("Model.py", 0)
