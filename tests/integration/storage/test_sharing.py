"""One file at a second place, by each way that a file system may have."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from storage_initializer.sharing import share_file

CONTENT = bytes(range(256)) * 9000


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(CONTENT)
    path.chmod(0o444)
    return path


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """Another file system."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def cannot(code: int) -> Callable[..., None]:
    def fail(*arguments: object, **options: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


def test_on_the_same_file_system_it_is_a_link(source: Path, tmp_path: Path) -> None:
    assert share_file(source, tmp_path / "target", 0o644) == "linked"
    assert (tmp_path / "target").samefile(source)


@pytest.mark.parametrize("code", [errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP])
def test_without_links_it_is_a_copy_of_the_wanted_mode(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(os, "link", cannot(code))

    assert share_file(source, tmp_path / "target", 0o644) in ("cloned", "copied")
    assert (tmp_path / "target").read_bytes() == CONTENT
    assert ((tmp_path / "target").stat().st_mode & 0o777, source.stat().st_nlink) == (0o644, 1)


def test_a_file_system_that_can_share_blocks_does(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def clone(target: int, request: int, source: int) -> int:
        assert request == 0x40049409
        return os.pwrite(target, os.pread(source, len(CONTENT), 0), 0)

    monkeypatch.setattr(os, "link", cannot(errno.EXDEV))
    monkeypatch.setattr("fcntl.ioctl", clone)

    assert share_file(source, tmp_path / "target", 0o644) == "cloned"
    assert (tmp_path / "target").read_bytes() == CONTENT


def test_to_another_file_system_it_is_a_copy(source: Path, elsewhere: Path) -> None:
    assert share_file(source, elsewhere / "target", 0o755) == "copied"
    assert (elsewhere / "target").read_bytes() == CONTENT
    assert (elsewhere / "target").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("way", ["os.link", "fcntl.ioctl"])
def test_a_full_disk_is_an_error_and_no_reason_for_another_way(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(os, "link", cannot(errno.EXDEV))
    monkeypatch.setattr(way, cannot(errno.ENOSPC))

    with pytest.raises(OSError, match="No space left on device"):
        share_file(source, tmp_path / "target", 0o644)
