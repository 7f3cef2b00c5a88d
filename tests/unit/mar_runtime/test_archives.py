"""Archives are unpacked into their folder or refused by name; nothing is ever written elsewhere."""

from __future__ import annotations

import gzip
import io
import json
import os
import stat
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import pytest

from data_plane.model_server.errors import ModelFailed
from mar_runtime.archives.unpack import UnpackedArchive, unpack
from model_archive import contents
from model_archive.manifest import Manifest
from tests.support.model_folder import manifest, read_tree, write_mar, write_tar

REPACK = "make it again with isvc pack"
CODE = b"def handle(data, context): return data\n"
MIB = 2**20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "work/models/m@1/archive"


def tar_with(path: Path, files: Mapping[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def special(kind: bytes, target: str = "", name: str = "bert/weights.pt") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
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


def test_a_tar_with_something_beside_its_top_folder_is_unpacked(tmp_path: Path, folder: Path) -> None:
    """tar on macOS adds a file of attributes to each."""
    archive = write_tar(tmp_path / "bert.tar.gz", tarfile.TarInfo("._bert"), tarfile.TarInfo("bert/._handler.py"))

    assert unpack(archive, folder) == UnpackedArchive(folder, Manifest("bert-model", "1.0", "handler.py"))


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
    tarred = write_tar(
        tmp_path / "bert.tar.gz",
        special(tarfile.DIRTYPE, name="bert"),
        special(tarfile.DIRTYPE, name="bert/cache/empty"),
    )

    for archive in (zipped, tarred):
        assert (unpack(archive, folder).folder / "cache/empty").is_dir()


def test_a_tar_of_the_folder_itself_is_unpacked(tmp_path: Path, folder: Path) -> None:
    archive = write_tar(tmp_path / "bert.tar.gz", special(tarfile.DIRTYPE, name="."), top=".")

    assert unpack(archive, folder) == UnpackedArchive(folder, Manifest("bert-model", "1.0", "handler.py"))


def test_what_an_older_archive_left_is_gone(tmp_path: Path, folder: Path) -> None:
    unpack(write_mar(tmp_path / "bert.mar", files={"handler.py": CODE, "old.py": b""}), folder)

    unpack(write_mar(tmp_path / "bert.mar", files={"handler.py": CODE}), folder)

    assert sorted(read_tree(folder)) == ["MAR-INF/MANIFEST.json", "handler.py"]


def test_two_files_of_one_name_are_refused(tmp_path: Path, folder: Path) -> None:
    archive = write_mar(tmp_path / "bert.mar")
    with ZipFile(archive, "a") as source, pytest.warns(UserWarning, match="Duplicate name"):
        source.writestr("handler.py", b"# the last\n")

    assert refused(archive, folder) == f"bert.mar holds 'handler.py' twice; {REPACK}."


# --- ways out of the folder ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["../escaped.py", "a/../../escaped.py", "/escaped.py", "..\\escaped.py", "\\escaped.py", "."],
)
@pytest.mark.parametrize("kind", ["mar", "tar"])
def test_a_path_that_leads_out_is_refused(tmp_path: Path, folder: Path, name: str, kind: str) -> None:
    if kind == "mar":
        archive = write_mar(tmp_path / "bert.mar", files={"handler.py": CODE, name: b"outside"})
    else:
        archive = tar_with(tmp_path / "bert.tar.gz", {name: b"outside"})

    assert refused(archive, folder) == (
        f"{archive.name} would unpack {name!r} outside of its folder; do not use it, {REPACK}."
    )


@pytest.mark.parametrize("name", ["weights:v1.bin", "a..b/c.py", "...", "~/c", ".hidden", "two words", "größe.json"])
def test_a_name_that_is_only_unusual_stays_as_it_is(tmp_path: Path, folder: Path, name: str) -> None:
    archive = write_mar(tmp_path / "bert.mar", files={"handler.py": CODE, name: b"inside"})

    assert (unpack(archive, folder).folder / name).read_bytes() == b"inside"


@pytest.mark.parametrize("name", ["../escaped", "/escaped", "a/../../escaped"])
def test_a_folder_that_leads_out_is_refused(tmp_path: Path, folder: Path, name: str) -> None:
    zipped = write_mar(tmp_path / "bert.mar", files={"handler.py": CODE, f"{name}/": b""})
    reason = refused(zipped, folder)
    zipped.unlink()

    tarred = write_tar(tmp_path / "bert.tar.gz", special(tarfile.DIRTYPE, name=name))
    assert (reason, refused(tarred, folder)) == tuple(
        f"{archive.name} would unpack {member!r} outside of its folder; do not use it, {REPACK}."
        for archive, member in ((zipped, f"{name}/"), (tarred, name))
    )


def test_a_link_in_a_zip_is_refused(tmp_path: Path, folder: Path) -> None:
    archive = write_mar(tmp_path / "bert.mar")
    link = ZipInfo("weights.pt")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with ZipFile(archive, "a") as source:
        source.writestr(link, "/etc/passwd")

    assert refused(archive, folder) == f"bert.mar holds a link or device, 'weights.pt'; {REPACK}."


@pytest.mark.parametrize(
    "member",
    [
        pytest.param(special(tarfile.SYMTYPE, "/etc/passwd"), id="symbolic link"),
        pytest.param(special(tarfile.LNKTYPE, "../../etc/passwd"), id="hard link"),
        pytest.param(special(tarfile.FIFOTYPE), id="pipe"),
        pytest.param(special(tarfile.CHRTYPE), id="device"),
        pytest.param(special(tarfile.BLKTYPE), id="disk"),
    ],
)
def test_what_is_no_file_in_a_tar_is_refused(tmp_path: Path, folder: Path, member: tarfile.TarInfo) -> None:
    archive = write_tar(tmp_path / "bert.tar.gz", member)

    assert refused(archive, folder) == f"bert.tar.gz holds a link or device, 'bert/weights.pt'; {REPACK}."


# --- too much -----------------------------------------------------------------------------------------


def test_a_zip_bomb_is_refused_by_what_it_announces(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = write_mar(tmp_path / "bert.mar")
    with ZipFile(archive, "a", ZIP_DEFLATED) as source:
        source.writestr("weights.pt", bytes(8 * MIB))
    monkeypatch.setattr(contents, "HARMLESS_SIZE", MIB)

    assert refused(archive, folder).endswith(f" and claims to unpack to 8.0 MiB or more; do not use it, {REPACK}.")
    assert not (folder / "weights.pt").exists()


def test_a_tar_bomb_is_refused(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = tarfile.TarInfo("bert/weights.pt")
    weights.size = 8 * MIB
    archive = write_tar(tmp_path / "bert.tar.gz", weights)
    monkeypatch.setattr(contents, "HARMLESS_SIZE", MIB)

    assert "claims to unpack to 8.0 MiB or more" in refused(archive, folder)


def test_a_header_that_is_a_bomb_is_refused(tmp_path: Path, folder: Path) -> None:
    """It would be read into memory before its archive's size is looked at."""
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, 100 * MIB
    with gzip.open(tmp_path / "bert.tar.gz", "wb", compresslevel=1) as file:
        file.write(header.tobuf())
        file.write(bytes(2 * MIB))

    assert refused(tmp_path / "bert.tar.gz", folder).startswith("bert.tar.gz has a header that is too large; ")


def test_a_file_that_is_longer_than_it_says_is_refused(tmp_path: Path, folder: Path) -> None:
    """Only as much as announced is read, and the checksum is of all."""
    archive = write_mar(tmp_path / "bert.mar")
    with ZipFile(archive, "a", ZIP_DEFLATED) as source:
        source.writestr("weights.pt", bytes(MIB))
    lying = archive.read_bytes().replace(MIB.to_bytes(4, "little"), (9).to_bytes(4, "little"))
    archive.write_bytes(lying)

    assert refused(archive, folder).startswith("bert.mar is damaged (Bad CRC-32 for file 'weights.pt')")
    assert (folder / "weights.pt").stat().st_size <= 9


@pytest.mark.parametrize("kind", ["mar", "tar"])
def test_an_archive_of_very_many_files_is_refused(
    tmp_path: Path, folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents, "MAX_ENTRIES", 20)
    many = {f"{number}.py": b"" for number in range(21)}
    archive = (
        write_mar(tmp_path / "bert.mar", files=many) if kind == "mar" else tar_with(tmp_path / "bert.tar.gz", many)
    )

    assert "holds more than 20 files and folders" in refused(archive, folder)


# --- damaged ------------------------------------------------------------------------------------------


def truncate(archive: Path) -> None:
    archive.write_bytes(archive.read_bytes()[:-40])


def encrypt(archive: Path) -> None:
    """Sets the flag that says so, in both headers of the first file."""
    data = bytearray(archive.read_bytes())
    for head, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        data[data.index(head) + flags] |= 1
    archive.write_bytes(data)


def compress_strangely(archive: Path) -> None:
    data = bytearray(archive.read_bytes())
    for head, method in ((b"PK\3\4", 8), (b"PK\1\2", 10)):
        data[data.index(head) + method] = 99
    archive.write_bytes(data)


def flip_a_bit(archive: Path) -> None:
    data = bytearray(archive.read_bytes())
    data[data.index(CODE) + 3] ^= 1
    archive.write_bytes(data)


def empty(archive: Path) -> None:
    archive.write_bytes(b"")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (truncate, "is truncated: after "),
        (encrypt, "holds 'handler.py' encrypted, or packed in another way than by deflate; "),
        (compress_strangely, "holds 'handler.py' encrypted, or packed in another way than by deflate; "),
        (flip_a_bit, "is damaged (Bad CRC-32 for file 'handler.py'); copy it to the source again."),
        (empty, "is empty (0 bytes); copy it to the source again."),
    ],
)
def test_a_damaged_zip_is_refused(tmp_path: Path, folder: Path, damage: Callable[[Path], None], reason: str) -> None:
    archive = tmp_path / "bert.mar"
    with ZipFile(archive, "w", ZIP_STORED) as source:
        source.writestr("handler.py", CODE)
        source.writestr("MAR-INF/MANIFEST.json", json.dumps(manifest()))
    damage(archive)

    assert refused(archive, folder).startswith(f"bert.mar {reason}")


def test_a_truncated_tar_is_refused(tmp_path: Path, folder: Path) -> None:
    archive = tar_with(tmp_path / "bert.tar.gz", {"handler.py": os.urandom(100_000)})
    truncate(archive)

    assert refused(archive, folder).startswith("bert.tar.gz is truncated or not a tar.gz (")


def test_a_file_where_a_folder_is_needed_is_refused(tmp_path: Path, folder: Path) -> None:
    archive = write_mar(tmp_path / "bert.mar", files={"a": b"", "a/b.py": b""})

    assert refused(archive, folder) == f"bert.mar holds 'a' as a file and as a folder; {REPACK}."


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(ModelFailed) as raised:
        unpack(write_mar(tmp_path / "bert.mar"), tmp_path / "file/bert")

    assert str(raised.value).startswith(f"bert.mar cannot be unpacked into {tmp_path}/file/bert (--work-dir): ")


# --- manifests ----------------------------------------------------------------------------------------


def test_an_archive_without_a_manifest_is_refused(tmp_path: Path, folder: Path) -> None:
    with ZipFile(tmp_path / "bert.mar", "w") as source:
        source.writestr("handler.py", CODE)

    assert refused(tmp_path / "bert.mar", folder) == f"bert.mar has no MAR-INF/MANIFEST.json; {REPACK}."


def test_a_manifest_that_torchserve_refuses_is_refused(tmp_path: Path, folder: Path) -> None:
    archive = write_mar(tmp_path / "bert.mar", b'{"model": {"modelName": "m"}}')

    assert refused(archive, folder) == (f"the MAR-INF/MANIFEST.json of bert.mar lacks model.handler; {REPACK}.")
