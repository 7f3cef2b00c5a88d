"""What a journal remembers of a run before, and when it forgets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from storage_initializer import journal as journal_module
from storage_initializer.journal import discard_journal, open_journal
from storage_initializer.sources import SourceFile

FILE = SourceFile(PurePosixPath("weights"), 3, version="1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a run that was killed after its second part."""
    with open_journal(tmp_path / "arriving", "s3://b", [FILE]) as journal:
        (tmp_path / "arriving/weights").write_bytes(b"abc")
        journal.record(0, 0)
        journal.record(0, 2)
    return tmp_path / "arriving"


def test_the_parts_of_the_run_before_are_known(folder: Path) -> None:
    with open_journal(folder, "s3://b", [FILE]) as journal:
        assert [journal.has(0, start) for start in (0, 1, 2)] == [True, False, True]
    assert (folder / "weights").read_bytes() == b"abc"


@pytest.mark.parametrize("kept", [0, 1, 2, 3])
def test_a_torn_last_line_counts_for_nothing(folder: Path, kept: int) -> None:
    path = folder.with_name("arriving.journal")
    path.write_bytes(path.read_bytes().removesuffix(b"0 2\n") + b"0 2\n"[:kept])

    with open_journal(folder, "s3://b", [FILE]) as journal:
        assert [journal.has(0, start) for start in (0, 2)] == [True, False]
        journal.record(0, 2)
    with open_journal(folder, "s3://b", [FILE]) as journal:
        assert [journal.has(0, start) for start in (0, 2)] == [True, True]


@pytest.mark.parametrize(
    ("identity", "files"),
    [
        ("s3://other", [FILE]),
        ("s3://b", [replace(FILE, version="2")]),
        ("s3://b", [replace(FILE, size=4)]),
        ("s3://b", [FILE, replace(FILE, path=PurePosixPath("more"))]),
    ],
)
def test_another_source_begins_anew(folder: Path, identity: str, files: list[SourceFile]) -> None:
    with open_journal(folder, identity, files) as journal:
        assert not journal.has(0, 0)
    assert list(folder.iterdir()) == []


def test_a_folder_without_its_journal_is_emptied(folder: Path) -> None:
    discard_journal(folder)

    with open_journal(folder, "s3://b", [FILE]) as journal:
        assert not journal.has(0, 0)
    assert list(folder.iterdir()) == []


def test_a_journal_of_before_the_last_boot_counts_for_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "boot_id").write_text("another")
    monkeypatch.setattr(journal_module, "_BOOT_ID", tmp_path / "boot_id")

    with open_journal(folder, "s3://b", [FILE]) as journal:
        assert not journal.has(0, 0)
