"""The corpus of hostile archives: each is refused with one line, and nothing outside of the target changes."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from model_archive import contents
from model_archive.errors import InvalidArchive
from model_archive.text import format_size
from storage_initializer.unpack import unpack
from tests.support.hostile_archives import AMBIGUOUS, CORPUS, LIMITS, Hostile
from tests.support.model_folder import read_tree


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in LIMITS.items():
        monkeypatch.setattr(contents, name, value)


def snapshot(root: Path, without: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything below ``root`` but ``without``: modes, times, contents."""
    found = {}
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if Path(folder, name) != without]
        for path in (Path(folder, name) for name in (*folders, *files)):
            status = path.lstat()
            # A folder's time changes with what is made in it, and the target is.
            content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
            found[str(path)] = (status.st_mode, status.st_mtime_ns if content else 0, content)
    return found


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with others around it, from which a path could lead to what is there."""
    place = tmp_path / "a/b/c"
    place.mkdir(parents=True)
    (tmp_path / "a/evil").write_text("was here before")
    return place


@pytest.mark.parametrize("hostile", [pytest.param(one, id=f"{one.title} ({one.file})") for one in CORPUS])
def test_a_hostile_archive_is_refused_and_writes_nothing_outside(tmp_path: Path, place: Path, hostile: Hostile) -> None:
    target, archive = place / "target", place / hostile.file
    hostile.write(archive)
    before = snapshot(tmp_path, target)

    with pytest.raises(InvalidArchive) as raised:
        unpack(archive, target)

    size = archive.stat().st_size
    assert str(raised.value) == f"{hostile.file} {hostile.reason.format(size=size, weight=format_size(size))}"
    assert snapshot(tmp_path, target) == before
    assert [path for path in target.rglob("*") if path.is_symlink() or not (path.is_file() or path.is_dir())] == []


@pytest.mark.parametrize("write", [pytest.param(write, id=title) for title, write in AMBIGUOUS.items()])
def test_a_zip_that_programs_read_differently_writes_nothing_but_its_own_files(
    tmp_path: Path, place: Path, write: Callable[[Path], None]
) -> None:
    target, archive = place / "target", place / "m.zip"
    write(archive)
    before = snapshot(tmp_path, target)

    with suppress(InvalidArchive):
        unpack(archive, target)

    assert snapshot(tmp_path, target) == before
    assert set(read_tree(target)) <= {"a", "b", "weights.pt"}
