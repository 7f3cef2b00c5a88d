"""Packing: the same bytes twice, what is found by its name, and what is refused."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import pytest

from model_archive import contents, packing
from model_archive.archive import check_archive
from model_archive.errors import CannotPack, UnsafeArchive
from model_archive.manifest import MANIFEST, Manifest
from model_archive.packing import ArchiveTarget, Packed, Sources, in_folder, pack
from model_archive.writing import ArchiveFormat
from tests.support.model_folder import manifest, packed_zip, read_tree, write_files, write_mar

HANDLER = b"def handle(data, context):\n    return data\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model with everything that is found by its name, and a file of its own in a folder."""
    files = {"handler.py": HANDLER, "model.py": b"", "bert.pt": b"\1" * 5000, "requirements.txt": b"six\n",
             "model-config.yaml": b"batchSize: 4\n", "words/en.txt": b"hello\n"}  # fmt: skip
    write_files(tmp_path / "bert", files)
    return tmp_path / "bert"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def packed(folder: Path, target: ArchiveTarget, **given: object) -> Packed:
    return pack(in_folder(folder, Sources(**given)), target)  # type: ignore[arg-type]


def refusal(sources: Sources, target: ArchiveTarget) -> str:
    with pytest.raises(CannotPack) as raised:
        pack(sources, target)
    return str(raised.value)


# --- what is written -----------------------------------------------------------------------------------


def test_a_folder_becomes_an_archive_of_its_name_with_all_that_is_in_it(folder: Path, out: Path) -> None:
    done = packed(folder, ArchiveTarget(out))

    names = ["bert.pt", "handler.py", "model-config.yaml", "model.py", "requirements.txt", "words/en.txt"]
    assert done == Packed(
        out / "bert.mar",
        Manifest("bert", "1.0", "handler.py", "requirements.txt", "model-config.yaml", "model.py", "bert.pt", "python"),
        {PurePosixPath(name): (folder / name).stat().st_size for name in names},
        (),
    )
    assert check_archive(out / "bert.mar", "bert.mar") == done.manifest
    with ZipFile(out / "bert.mar") as archive:
        assert archive.namelist() == [MANIFEST, *names]
        assert {name: archive.read(name) for name in names} == read_tree(folder)
        assert {info.compress_type for info in archive.infolist()} == {ZIP_DEFLATED}


@pytest.mark.parametrize("form", [ArchiveFormat.DEFAULT, ArchiveFormat.ZIP_STORE, ArchiveFormat.TGZ])
def test_the_same_files_give_the_same_bytes(folder: Path, out: Path, tmp_path: Path, form: ArchiveFormat) -> None:
    once = packed(folder, ArchiveTarget(out, form)).path.read_bytes()
    again = tmp_path / "another place" / "bert"
    write_files(again, dict(reversed(read_tree(folder).items())))
    for path in again.rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(path.stat().st_mode & ~0o077)

    assert packed(again, ArchiveTarget(out, form, overwrite=True)).path.read_bytes() == once


@pytest.mark.parametrize("form", ArchiveFormat)
def test_what_every_form_holds_is_an_archive(folder: Path, out: Path, form: ArchiveFormat) -> None:
    done = packed(folder, ArchiveTarget(out, form))

    assert check_archive(done.path, done.path.name) == done.manifest
    assert [path.name for path in out.iterdir()] == [done.path.name]


def test_zip_store_packs_without_compressing(folder: Path, out: Path) -> None:
    with ZipFile(packed(folder, ArchiveTarget(out, ArchiveFormat.ZIP_STORE)).path) as archive:
        assert {info.compress_type for info in archive.infolist()} == {ZIP_STORED}


def test_the_time_is_that_which_is_asked_for(folder: Path, out: Path) -> None:
    moment = datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)

    with ZipFile(packed(folder, ArchiveTarget(out, time=moment)).path) as archive:
        assert {info.date_time for info in archive.infolist()} == {(2026, 2, 3, 4, 5, 6)}
        assert json.loads(archive.read(MANIFEST))["createdOn"] == "03/02/2026 04:05:06"


def test_a_program_stays_one(folder: Path, out: Path) -> None:
    (folder / "words/en.txt").chmod(0o700)

    with ZipFile(packed(folder, ArchiveTarget(out)).path) as archive:
        modes = {info.filename: info.external_attr >> 16 for info in archive.infolist()}
    assert modes["words/en.txt"] == stat.S_IFREG | 0o755
    assert {*modes.values()} == {stat.S_IFREG | 0o755, stat.S_IFREG | 0o644}


# --- where it comes from -------------------------------------------------------------------------------


def test_what_is_given_comes_before_what_is_found(folder: Path, out: Path) -> None:
    write_files(folder, {"other.py": HANDLER, "second.onnx": b""})

    done = packed(
        folder, ArchiveTarget(out), model_name="b", version="2.0", handler=str(folder / "other.py:handle"),
        serialized_file=folder / "second.onnx",
    )  # fmt: skip

    assert done.path.name == "b.mar"
    assert (done.manifest.model_version, done.manifest.handler) == ("2.0", "other.py:handle")
    assert done.manifest.serialized_file == "second.onnx"


def test_what_is_given_may_be_named_as_it_is_in_the_folder(folder: Path, out: Path) -> None:
    write_files(folder, {"own.py": HANDLER, "net/net.py": b"", "second.onnx": b"", "r.txt": b"", "c.yaml": b""})

    done = packed(
        folder, ArchiveTarget(out), handler="own:handle", serialized_file=Path("second.onnx"),
        model_file=Path("model.py"), requirements_file=Path("r.txt"), config_file=Path("c.yaml"),
    )  # fmt: skip

    assert done.manifest == Manifest(
        "bert", "1.0", "own:handle", "r.txt", "c.yaml", "model.py", "second.onnx", "python"
    )


def test_what_is_given_is_looked_for_where_it_is_named_first(
    folder: Path, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path / "here", {"bert.pt": b"another"})
    monkeypatch.chdir(tmp_path / "here")

    with pytest.raises(CannotPack) as raised:
        packed(folder, ArchiveTarget(out), serialized_file=Path("bert.pt"))

    assert str(raised.value) == (
        f"bert.pt and {folder}/bert.pt would both be bert.pt in the archive; rename one of them"
    )


def test_weights_without_a_handler_get_torchserves_base_handler(tmp_path: Path, out: Path) -> None:
    write_files(tmp_path / "net", {"net.pt": packed_zip({"net/constants.pkl": b""})})

    assert packed(tmp_path / "net", ArchiveTarget(out)).manifest.handler == "base_handler"


def test_hidden_files_and_leftovers_of_a_folder_are_left_out_and_named(folder: Path, out: Path) -> None:
    write_files(folder, {".env": b"SECRET=1", ".git/config": b"", "words/__pycache__/a.pyc": b"", "__MACOSX/a": b""})

    done = packed(folder, ArchiveTarget(out))

    assert set(map(str, done.files)).isdisjoint({".env", ".git/config", "words/__pycache__/a.pyc", "__MACOSX/a"})
    assert set(done.left_out) == {folder / name for name in (".env", ".git", "words/__pycache__", "__MACOSX")}


def test_the_archive_of_the_last_time_is_not_packed_again(folder: Path) -> None:
    once = packed(folder, ArchiveTarget(folder)).path.read_bytes()

    assert packed(folder, ArchiveTarget(folder, overwrite=True)).path.read_bytes() == once


def test_an_unpacked_archive_is_packed_with_its_manifest(tmp_path: Path, out: Path) -> None:
    described = manifest(modelName="m", modelVersion="3.1", handler="h.py:answer", envelope="body")
    with ZipFile(write_mar(tmp_path / "m.mar", described, {"h.py": b"def answer(data, context): ..."})) as archive:
        archive.extractall(tmp_path / "some folder")

    done = packed(tmp_path / "some folder", ArchiveTarget(out))

    assert done.path.name == "m.mar"
    with ZipFile(done.path) as archive:
        again = json.loads(archive.read(MANIFEST))
    assert again["model"] == described["model"]


def test_patterns_folders_and_files_are_extra_files(tmp_path: Path, out: Path) -> None:
    files = {"h.py": HANDLER, "a.txt": b"", "b.txt": b"", "more/c.txt": b"", "more/deep/d.txt": b"", "[x].json": b""}
    write_files(tmp_path / "in", files)
    extra = tuple(str(tmp_path / "in" / name) for name in ("*.txt", "more", "[[]x].json"))

    done = pack(Sources(model_name="m", handler=str(tmp_path / "in/h"), extra_files=extra), ArchiveTarget(out))

    assert [*map(str, done.files)] == ["[x].json", "a.txt", "b.txt", "c.txt", "deep/d.txt", "h.py"]
    assert done.manifest.handler == "h"


# --- what is refused -----------------------------------------------------------------------------------


def _weights(folder: Path) -> Sources:
    return Sources(model_name="m", serialized_file=folder / "bert.pt")


REFUSED: dict[str, tuple[Callable[[Path], Sources], str]] = {
    "no handler": (
        lambda _: Sources(model_name="m"),
        "the model has no handler; add handler.py, or name its file or one of TorchServe's own (base_handler, "
        "text_classifier, image_classifier, object_detector, image_segmenter, dali_image_classifier, vllm_handler, "
        "trt_llm_handler) with --handler",
    ),
    "weights that are not there": (
        lambda folder: Sources(model_name="m", handler="base_handler", serialized_file=folder / "gone.pt"),
        "there is no file {folder}/gone.pt; correct --serialized-file",
    ),
    "no weights for a stock handler": (
        lambda _: Sources(model_name="m", handler="image_classifier"),
        "TorchServe's image_classifier has no weights to load; name them with --serialized-file",
    ),
    "an extra file that is not there": (
        lambda folder: Sources(**{**vars(_weights(folder)), "extra_files": ("gone*.txt",)}),
        "there is no file gone*.txt; correct --extra-files",
    ),
    "two files of one name": (
        lambda folder: Sources(**{**vars(_weights(folder)), "extra_files": (str(folder / "other"),)}),
        "{folder}/bert.pt and {folder}/other/bert.pt would both be bert.pt in the archive; rename one of them",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_packed_is_refused_with_what_to_do(case: str, folder: Path, out: Path) -> None:
    write_files(folder, {"other/bert.pt": b"others"})
    sources, message = REFUSED[case]

    assert refusal(sources(folder), ArchiveTarget(out)) == message.format(folder=folder)
    assert list(out.iterdir()) == []


def test_several_weights_are_named(folder: Path) -> None:
    write_files(folder, {"more.onnx": b""})

    with pytest.raises(CannotPack) as raised:
        in_folder(folder, Sources())

    assert str(raised.value) == (
        f"{folder} has several weights, bert.pt, more.onnx; name one, such as --serialized-file bert.pt"
    )


def test_of_a_folder_with_a_model_below_it_that_is_named(folder: Path) -> None:
    with pytest.raises(CannotPack) as raised:
        in_folder(folder.parent, Sources())

    assert str(raised.value) == f"{folder.parent} has no handler.py; name the folder that has it: {folder}"


def test_an_archive_that_is_there_is_kept_unless_it_may_be_overwritten(folder: Path, out: Path) -> None:
    (out / "bert.mar").write_bytes(b"mine")

    message = refusal(in_folder(folder, Sources()), ArchiveTarget(out))

    assert message == f"{out}/bert.mar exists already; overwrite it with --force"
    assert (out / "bert.mar").read_bytes() == b"mine"
    assert packed(folder, ArchiveTarget(out, overwrite=True)).path.stat().st_size > 4


def test_a_folder_is_not_overwritten_by_its_own_archive(folder: Path) -> None:
    target = ArchiveTarget(folder.parent, ArchiveFormat.NO_ARCHIVE, overwrite=True)
    before = read_tree(folder)

    message = refusal(in_folder(folder, Sources()), target)

    assert message == f"{folder} holds the model's own files; name another folder with --export-path"
    assert read_tree(folder) == before


def test_a_name_that_the_runtimes_refuse_is_refused_before_it_is_written(folder: Path, out: Path) -> None:
    (folder / "a\nb").write_bytes(b"")

    with pytest.raises(UnsafeArchive) as raised:
        packed(folder, ArchiveTarget(out))

    what = r"holds a name with invisible characters, 'a\nb'; rename it, or leave it out"
    assert str(raised.value) == f"bert.mar {what}"
    assert list(out.iterdir()) == []


def test_content_that_the_runtimes_take_for_a_bomb_is_refused(
    folder: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "zeros").write_bytes(bytes(3 << 20))
    monkeypatch.setattr(contents, "HARMLESS_SIZE", 1 << 20)

    with pytest.raises(UnsafeArchive, match=r"^bert\.mar has .* and claims to unpack to 3\.0 MiB or more; do not"):
        packed(folder, ArchiveTarget(out))

    assert list(out.iterdir()) == []


def test_links_that_lead_back_are_bounded(folder: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "MAX_ENTRIES", 10)
    (folder / "words/all").symlink_to(folder)

    message = refusal(in_folder(folder, Sources()), ArchiveTarget(out))

    assert message == f"{folder} holds 10 folders or more; remove links that lead back into it"


def test_what_is_no_file_is_refused(folder: Path, out: Path) -> None:
    os.mkfifo(folder / "pipe")

    assert refusal(in_folder(folder, Sources()), ArchiveTarget(out)) == f"{folder}/pipe is not a file; remove it"
