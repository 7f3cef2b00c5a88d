"""Archives that are the whole download: unpacked next to where they were, whoever packed them and however."""

from __future__ import annotations

import bz2
import io
import lzma
import random
import tarfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import pytest

from model_archive.errors import InvalidArchive
from model_archive.limits import MAX_XZ_MEMORY
from storage_initializer.errors import EmptySourceError, NoSpaceError
from storage_initializer.kinds import lone_archive
from storage_initializer.limits import MAX_LINKS
from storage_initializer.unpack import unpack
from tests.support.hostile_archives import member, raw, tar_of, zip_of
from tests.support.model_folder import packed_zip, read_tree, write_mar
from tests.support.model_folder import write_tar as write_archived_model

FILES = {
    "config/config.properties": b"load_models=all\n",
    "model-store/bert.mar": bytes(range(256)) * 512,
    "ä.txt": b"",
}


def write_tar(path: Path, mode: str, form: int = tarfile.PAX_FORMAT) -> Path:
    with tarfile.open(path, mode, format=form) as archive:
        for name, content in FILES.items():
            info = tarfile.TarInfo(f"./{name}")
            info.size, info.mode = len(content), 0o600
            archive.addfile(info, io.BytesIO(content))
    return path


def modes(root: Path) -> dict[str, int]:
    return {str(path.relative_to(root)): path.stat().st_mode & 0o7777 for path in root.rglob("*")}


def named(*names: str) -> dict[PurePosixPath, PurePosixPath]:
    return {PurePosixPath(name): PurePosixPath(name) for name in names}


# --- which ones --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "m.zip",
        "m.tar",
        "m.tar.gz",
        "m.tgz",
        "m.taz",
        "m.tar.bz2",
        "m.tbz2",
        "m.tar.xz",
        "m.txz",
        "M.ZIP",
        "below/m.zip",
    ],
)
def test_one_archive_alone_is_unpacked(name: str) -> None:
    assert lone_archive(named(name)) == PurePosixPath(name)


@pytest.mark.parametrize(
    "names", [["m.mar"], ["m.gz"], ["m.tar.zst"], ["zip"], ["m.zip", "n.zip"], ["m.zip", "README.md"]]
)
def test_all_else_stays_as_it_is(names: list[str]) -> None:
    assert lone_archive(named(*names)) is None


def test_one_whose_name_does_not_tell_is_unpacked_for_what_it_holds() -> None:
    assert lone_archive({PurePosixPath("download"): PurePosixPath("download.zip")}) == PurePosixPath("download")


# --- how ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", [ZIP_STORED, ZIP_DEFLATED])
def test_a_zip_is_unpacked(tmp_path: Path, compression: int) -> None:
    with ZipFile(tmp_path / "m.zip", "w", compression) as archive:
        archive.mkdir("model-store")
        for name, content in FILES.items():
            archive.writestr(name, content)

    unpack(tmp_path / "m.zip", tmp_path / "out")

    assert read_tree(tmp_path / "out") == FILES


def test_a_zip_that_was_written_to_a_pipe_is_unpacked(tmp_path: Path) -> None:
    """Its sizes come after the files, not before."""

    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def tell(self) -> int:
            raise io.UnsupportedOperation

    pipe = Pipe()
    with ZipFile(pipe, "w", ZIP_DEFLATED) as archive:
        for name, content in FILES.items():
            archive.writestr(name, content)
    (tmp_path / "m.zip").write_bytes(pipe.getvalue())

    unpack(tmp_path / "m.zip", tmp_path / "out")

    assert read_tree(tmp_path / "out") == FILES


@pytest.mark.parametrize(
    "names", [("model.pt", "Model.pt"), ("\u00e9", "e\u0301"), ("a/x", "A/y"), ("straße", "STRASSE")], ids=ascii
)
@pytest.mark.parametrize("file", ["m.zip", "m.tar.gz"])
def test_names_that_other_file_systems_take_for_one_are_two_files(
    tmp_path: Path, file: str, names: tuple[str, str]
) -> None:
    write = zip_of(*((name, b"") for name in names)) if file == "m.zip" else tar_of(*map(member, names), content=b"")
    write(tmp_path / file)

    unpack(tmp_path / file, tmp_path / "out")

    assert set(read_tree(tmp_path / "out")) == set(names)


@pytest.mark.parametrize("inner", ["inner.zip", "below/INNER.ZIP", "inner.tar.gz"])
def test_an_archive_that_holds_only_another_one_is_refused(tmp_path: Path, inner: str) -> None:
    (tmp_path / "m.zip").write_bytes(packed_zip({inner: packed_zip(FILES)}))

    with pytest.raises(
        InvalidArchive, match=rf"^m\.zip holds nothing but another archive, '{inner}'; pack the model's"
    ):
        unpack(tmp_path / "m.zip", tmp_path / "out")


def test_an_archive_in_the_archive_stays_packed_beside_other_files(tmp_path: Path) -> None:
    files = {"data.zip": packed_zip(FILES), "model.py": b""}
    (tmp_path / "m.zip").write_bytes(packed_zip(files))

    unpack(tmp_path / "m.zip", tmp_path / "out")

    assert read_tree(tmp_path / "out") == files


def test_an_archive_may_hold_one_model_archive_of_either_kind(tmp_path: Path) -> None:
    models = [write_mar(tmp_path / "bert.mar"), write_archived_model(tmp_path / "bert.tar.gz")]

    for model in models:
        (tmp_path / "m.zip").write_bytes(packed_zip({model.name: model.read_bytes()}))
        unpack(tmp_path / "m.zip", tmp_path / "of" / model.name)

    assert [read_tree(tmp_path / "of" / one.name) for one in models] == [{one.name: one.read_bytes()} for one in models]


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("m.tar", "w"),
        ("m.tar.gz", "w:gz"),
        ("m.tgz", "w:gz"),
        ("m.tar.gz", "w"),
        ("m.tar.bz2", "w:bz2"),
        ("m.txz", "w:xz"),
        ("m.tar", "w:xz"),
    ],
)
def test_a_tar_is_unpacked(tmp_path: Path, name: str, mode: str, form: int) -> None:
    """Also one that a server has unzipped on the way."""
    unpack(write_tar(tmp_path / name, mode, form), tmp_path / "out")

    assert read_tree(tmp_path / "out") == FILES


@pytest.mark.parametrize("compress", [bz2.compress, lzma.compress])
def test_one_that_several_processors_have_compressed_is_unpacked(
    tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    """Each of them makes a stream of its own."""
    packed = write_tar(tmp_path / "plain.tar", "w").read_bytes()
    (tmp_path / "m.tar").write_bytes(compress(packed[:1000]) + compress(packed[1000:]))

    unpack(tmp_path / "m.tar", tmp_path / "out")

    assert read_tree(tmp_path / "out") == FILES


@pytest.mark.parametrize(
    ("compress", "kind"), [(bz2.compress, "tar.bz2"), (lzma.compress, "tar.xz")], ids=["bzip2", "xz"]
)
def test_one_that_is_cut_off_is_refused(tmp_path: Path, compress: Callable[[bytes], bytes], kind: str) -> None:
    content = compress(write_tar(tmp_path / "plain.tar", "w").read_bytes())[:-20]
    (tmp_path / "m.tar").write_bytes(content)

    with pytest.raises(InvalidArchive, match=rf"^m\.tar is truncated or not a {kind} \({len(content)} bytes: "):
        unpack(tmp_path / "m.tar", tmp_path / "out")


def test_a_tar_that_asks_for_gigabytes_of_memory_is_refused(tmp_path: Path) -> None:
    """By the size of its dictionary, which is in the header of its block."""
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 2 * MAX_XZ_MEMORY}]
    packed = write_tar(tmp_path / "plain.tar", "w").read_bytes()
    (tmp_path / "m.tar.xz").write_bytes(lzma.compress(packed, filters=filters))

    with pytest.raises(InvalidArchive, match="Memory usage limit exceeded"):
        unpack(tmp_path / "m.tar.xz", tmp_path / "out")


def test_files_are_readable_and_no_more_whatever_the_archive_says(tmp_path: Path) -> None:
    setuid, secret, script = member("setuid"), member("secret"), member("bin/start.sh")
    setuid.mode, secret.mode, script.mode = 0o4777, 0o000, 0o100
    tar_of(setuid, secret, script)(tmp_path / "m.tar")
    entry = ZipInfo("bin/start.sh")
    entry.external_attr = 0o106777 << 16
    zip_of(("weights.pt", b""), (entry, b""))(tmp_path / "m.zip")

    unpack(tmp_path / "m.tar", tmp_path / "tar")
    unpack(tmp_path / "m.zip", tmp_path / "zip")

    assert modes(tmp_path / "tar") == {"setuid": 0o755, "secret": 0o644, "bin": 0o755, "bin/start.sh": 0o755}
    assert modes(tmp_path / "zip") == {"weights.pt": 0o644, "bin": 0o755, "bin/start.sh": 0o755}


def test_links_to_files_of_the_archive_become_those_files(tmp_path: Path) -> None:
    tar_of(
        member("snapshots/1/model.pt", tarfile.SYMTYPE, "../../blobs/abc"),
        member("latest.pt", tarfile.SYMTYPE, "snapshots/1/model.pt"),
        member("blobs/abc"),
        member("copies/abc", tarfile.LNKTYPE, "blobs/abc"),
        content=b"weights",
    )(tmp_path / "m.tar.gz")

    unpack(tmp_path / "m.tar.gz", tmp_path / "out")

    names = ("blobs/abc", "copies/abc", "latest.pt", "snapshots/1/model.pt")
    assert read_tree(tmp_path / "out") == dict.fromkeys(names, b"weights")
    assert not any(path.is_symlink() for path in (tmp_path / "out").rglob("*"))


def test_links_that_lead_to_links_end(tmp_path: Path) -> None:
    def chain(length: int) -> Path:
        links = [member(f"l{number}", tarfile.SYMTYPE, f"l{number + 1}") for number in range(length)]
        tar_of(*links, member(f"l{length}"))(tmp_path / f"{length}.tar")
        return tmp_path / f"{length}.tar"

    unpack(chain(MAX_LINKS), tmp_path / "out")
    with pytest.raises(InvalidArchive, match="holds a link, 'l0', to what is not a file in it"):
        unpack(chain(MAX_LINKS + 1), tmp_path / "refused")


@pytest.mark.parametrize("name", ["m.zip", "m.tar.gz"])
def test_an_archive_without_files_is_an_empty_source(tmp_path: Path, name: str) -> None:
    (zip_of(("folder/", b"")) if name == "m.zip" else tar_of(member("folder", tarfile.DIRTYPE)))(tmp_path / name)

    with pytest.raises(EmptySourceError, match=rf"^there is no file in {name}; pack the model's files again$"):
        unpack(tmp_path / name, tmp_path / "out")


@pytest.mark.parametrize("name", ["m.zip", "m.tar.gz"])
def test_what_does_not_fit_the_disk_is_told_before_it_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 1000}))
    (zip_of(("w", bytes(1001))) if name == "m.zip" else tar_of(member("w"), content=bytes(1001)))(tmp_path / name)

    with pytest.raises(NoSpaceError, match=r"^it unpacks to 1001 B or more, but .*/out has 1000 B free; use a bigger"):
        unpack(tmp_path / name, tmp_path / "out")
    assert read_tree(tmp_path / "out") == {}


@pytest.mark.parametrize("name", ["m.zip", "m.tar", "m.tar.gz"])
def test_any_damage_is_refused_or_harmless(tmp_path: Path, name: str) -> None:
    """No byte of an archive, whatever it becomes, may end in another error than ours, or in other files."""
    path, chance = tmp_path / name, random.Random(0)
    write = zip_of(*FILES.items()) if name == "m.zip" else None
    if write:
        write(path)
    else:
        write_tar(path, "w:gz" if name == "m.tar.gz" else "w")
    whole, refused = path.read_bytes(), 0
    for attempt in range(200):
        damaged = bytearray(whole)
        damaged[chance.randrange(len(whole) if name != "m.tar" else 3000)] ^= 1 << chance.randrange(8)
        raw(bytes(damaged))(path)
        try:
            unpack(path, tmp_path / f"out-{attempt}")
        except (InvalidArchive, NoSpaceError):
            refused += 1
    assert refused > 50
    assert {each.name for each in tmp_path.iterdir() if not each.name.startswith("out-")} == {name}
