"""What a file is, by what it holds."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest

from model_archive.errors import InvalidArchive
from storage_initializer.kinds import suffix_of
from tests.support.hostile_archives import member, tar_of
from tests.support.model_folder import write_mar, write_tar


def zip_with(*names: str) -> Callable[[Path], object]:
    def make(path: Path) -> None:
        with ZipFile(path, "w") as archive:
            for name in names:
                archive.writestr(name, b"x")

    return make


def holding(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


def recompressed(compress: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    def make(path: Path) -> None:
        tar_of(member("config.json"))(path)
        path.write_bytes(compress(path.read_bytes()))

    return make


def half_of(make: Callable[[Path], object]) -> Callable[[Path], object]:
    def cut(path: Path) -> None:
        make(path)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    return cut


@pytest.mark.parametrize(
    ("make", "suffix"),
    [
        (zip_with("config.json", "model/weights.bin"), ".zip"),
        (zip_with(), ".zip"),
        (write_mar, ".mar"),
        (zip_with("bert/data.pkl", "bert/version", "bert/data/0"), ".pt"),
        (zip_with("bert/archive_format", "bert/models/model.json"), ".pt2"),
        (tar_of(member("config.json")), ".tar"),
        (write_tar, ".tar"),
        (recompressed(bz2.compress), ".tar"),
        (recompressed(lzma.compress), ".tar"),
        (holding(gzip.compress(b"one file alone")), ""),
        (holding(gzip.compress(bytes(1024))), ""),
        (holding(b"\x1f\x8b and no more"), ""),
        (holding(b"\x08\x09\x12\x07pytorch"), ""),
        (holding(random.Random(0).randbytes(4096)), ""),
        (holding(bytes(1024)), ""),
        (holding(b"PK"), ""),
    ],
    ids=["zip", "empty zip", "mar", "torch.save", "torch.export", "tar", "tar.gz", "tar.bz2", "tar.xz", "gzip",
         "gzip of zeros", "gzip cut off", "onnx", "noise", "zeros", "two letters"],
)  # fmt: skip
def test_an_archive_or_a_model_of_torch_is_known(tmp_path: Path, make: Callable[[Path], object], suffix: str) -> None:
    make(tmp_path / "download")

    assert suffix_of(tmp_path / "download") == suffix


def test_half_a_zip_is_damaged(tmp_path: Path) -> None:
    half_of(zip_with("a", "b", "c"))(tmp_path / "download")

    with pytest.raises(InvalidArchive, match="download is truncated"):
        suffix_of(tmp_path / "download")
