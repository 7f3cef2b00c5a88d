"""Archives are unpacked into their folder or refused by name; nothing is ever written elsewhere."""

from __future__ import annotations

import tarfile
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from data_plane.model_server.errors import ModelFailed
from mar_runtime.archives.unpack import UnpackedArchive, unpack
from model_archive.manifest import Manifest
from tests.support.model_folder import manifest, read_tree, write_mar, write_tar

CODE = b"def handle(data, context): return data\n"
MIB = 2**20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "work/models/m@1/archive"


def directory(name: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = tarfile.DIRTYPE
    return info


def refused(archive: Path, folder: Path) -> str:
    """Why, after nothing was written beside the folder."""
    with pytest.raises(ModelFailed) as raised:
        unpack(archive, folder)
    outside = [path for path in folder.parents[3].rglob("*") if path.is_file() and not path.is_relative_to(folder)]
    assert outside == [archive]
    return str(raised.value)


def test_an_archive_is_unpacked_with_its_manifest(tmp_path: Path, folder: Path) -> None:
    fields = {"envelope": "json", "requirementsFile": "requirements.txt", "configFile": "c.yaml", "modelFile": "n.py"}
    archive = write_mar(tmp_path / "bert.mar", manifest(**fields), {"handler.py": CODE, "data/words.txt": b"words"})

    unpacked = unpack(archive, folder)

    assert unpacked == UnpackedArchive(
        folder, Manifest("bert-model", "1.0", "handler.py", "requirements.txt", "c.yaml", "n.py")
    )
    assert {name: data for name, data in read_tree(folder).items() if "MANIFEST" not in name} == {
        "handler.py": CODE,
        "data/words.txt": b"words",
    }


def test_a_tar_is_unpacked_without_its_top_folder(tmp_path: Path, folder: Path) -> None:
    unpacked = unpack(write_tar(tmp_path / "bert.tar.gz"), folder)

    assert unpacked == UnpackedArchive(folder, Manifest("bert-model", "1.0", "handler.py"))


def test_an_unpacked_archive_may_be_in_a_lone_folder(tmp_path: Path, folder: Path) -> None:
    unpack(write_mar(tmp_path / "bert.mar"), tmp_path / "store/bert/inner")

    unpacked = unpack(tmp_path / "store/bert", folder)

    assert unpacked == UnpackedArchive(tmp_path / "store/bert/inner", Manifest("bert-model", "1.0", "handler.py"))


def test_a_folder_is_used_as_it_is(tmp_path: Path, folder: Path) -> None:
    unpack(write_mar(tmp_path / "bert.mar"), tmp_path / "bert")

    assert unpack(tmp_path / "bert", folder) == UnpackedArchive(
        tmp_path / "bert", Manifest("bert-model", "1.0", "handler.py")
    )
    assert not folder.exists()


def test_an_empty_folder_is_unpacked(tmp_path: Path, folder: Path) -> None:
    zipped = write_mar(tmp_path / "bert.mar", files={"handler.py": CODE, "cache/empty/": b""})
    tarred = write_tar(tmp_path / "bert.tar.gz", directory("bert"), directory("bert/cache/empty"))

    for archive in (zipped, tarred):
        assert (unpack(archive, folder).folder / "cache/empty").is_dir()


def test_what_an_older_archive_left_is_gone(tmp_path: Path, folder: Path) -> None:
    unpack(write_mar(tmp_path / "bert.mar", files={"handler.py": CODE, "old.py": b""}), folder)

    unpack(write_mar(tmp_path / "bert.mar", files={"handler.py": CODE}), folder)

    assert sorted(read_tree(folder)) == ["MAR-INF/MANIFEST.json", "handler.py"]


def test_a_file_that_is_longer_than_it_says_is_refused(tmp_path: Path, folder: Path) -> None:
    """Only as much as announced is read, and the checksum is of all."""
    archive = write_mar(tmp_path / "bert.mar")
    with ZipFile(archive, "a", ZIP_DEFLATED) as source:
        source.writestr("weights.pt", bytes(MIB))
    lying = archive.read_bytes().replace(MIB.to_bytes(4, "little"), (9).to_bytes(4, "little"))
    archive.write_bytes(lying)

    assert refused(archive, folder).startswith("bert.mar is damaged (Bad CRC-32 for file 'weights.pt')")
    assert (folder / "weights.pt").stat().st_size <= 9


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(ModelFailed) as raised:
        unpack(write_mar(tmp_path / "bert.mar"), tmp_path / "file/bert")

    assert str(raised.value).startswith(f"bert.mar cannot be unpacked into {tmp_path}/file/bert (--work-dir): ")
