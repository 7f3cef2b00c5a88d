"""Checksums of files, against the values that everyone gives for ``123456789``."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_initializer.checksums import checksum_of, git_blob
from storage_initializer.sources import Checksum

VALUES = {
    "crc32": "cbf43926",
    "sha256": "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225",
    "sha1": "f7c3bc1d808e04732adf679965ccc34ca7ae3441",
    "md5": "25f9e794323b453885f5181f1b624d0b",
}


@pytest.mark.parametrize("algorithm", VALUES)
def test_a_checksum_is_the_one_that_stores_give(tmp_path: Path, algorithm: str) -> None:
    (tmp_path / "file").write_bytes(b"123456789")

    assert checksum_of(tmp_path / "file", algorithm) == Checksum(algorithm, VALUES[algorithm])


def test_git_sums_up_the_size_as_well(tmp_path: Path) -> None:
    """As ``git hash-object`` does."""
    (tmp_path / "file").write_bytes(b"123456789")
    expected = git_blob("e2e107ac61ac259b87c544f6e7a4eb03422c6c21", 9)

    assert checksum_of(tmp_path / "file", expected.algorithm) == expected


@pytest.mark.parametrize("algorithm", VALUES)
def test_a_file_is_read_to_its_end(tmp_path: Path, algorithm: str) -> None:
    """Longer than any buffer, and different at the end only."""
    for number in (1, 2):
        (tmp_path / str(number)).write_bytes(bytes(3 << 20) + bytes([number]))

    assert checksum_of(tmp_path / "1", algorithm) != checksum_of(tmp_path / "2", algorithm)
