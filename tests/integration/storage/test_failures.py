"""Each way to fail: its exit code, its whole line of reason, and nothing left at the destination."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from storage_initializer.backends.local import LocalSource
from storage_initializer.errors import CopyError, NoSpaceError, ServerError
from storage_initializer.sources import Checksum
from storage_initializer.transfer import STAGING
from tests.integration.storage.conftest import Initialize, ordinary_user
from tests.support.memory_source import MemorySource, bring_alone
from tests.support.model_folder import read_tree, write_files, write_volume


@pytest.fixture
def leeway(tmp_path: Path) -> Path:
    return write_volume(tmp_path / "pvc/leeway")


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


NO_CLAIM = "it names no claim; write pvc://CLAIM or pvc://CLAIM/PATH"
LEADING_NOWHERE = {
    "pvc://leewey": (
        4, "claim leewey is not mounted at {root}/leewey; mount it there, or set --pvc-root to where it is",
    ),
    **dict.fromkeys(("pvc://", "pvc:///path", "pvc://.", "pvc://../etc"), (2, NO_CLAIM)),
    "pvc://leeway/../other": (2, "it has '..' in its path; name the folder of the claim itself"),
    "file://server/models": (2, "it names the host server, and a file URI has none; write file:///PATH"),
    "hdfs://owner/model": (3, "hdfs:// is not supported; copy the model to a bucket or a claim and name that"),
    "pvc://leeway/modl-store": (5, "there is no modl-store in {root}/leeway; did you mean model-store?"),
    "pvc://leeway/zzz/deeper": (5, "there is no zzz in {root}/leeway; there is config, model-store"),
    "pvc://leeway/model-store/bert.mar": (
        5, "there is no bert.mar in {root}/leeway/model-store; did you mean bert-model.mar?",
    ),
    "pvc://leeway/config/config.properties/x": (
        5, "{root}/leeway/config/config.properties is a file, so nothing can be below it; end the path there",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("uri", "code", "complaint"), [(uri, *told) for uri, told in LEADING_NOWHERE.items()])
def test_a_uri_that_leads_nowhere(
    initialize: Initialize, leeway: Path, models: Path, uri: str, code: int, complaint: str
) -> None:
    outcome = initialize(uri, models, "--pvc-root", leeway.parent)

    assert (outcome.exit_code, outcome.reason) == (code, f"{uri}: {complaint.format(root=leeway.parent)}")
    assert not models.exists()


def test_a_uri_without_a_scheme_is_a_path_and_is_told_to_be_one(
    initialize: Initialize, tmp_path: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    outcome = initialize("claim/bert.mar", models)

    assert (outcome.exit_code, outcome.reason) == (
        5,
        f"claim/bert.mar: it has no scheme, so it is a path below {tmp_path}, and there is no claim in .; nothing is "
        "there; for another place, write pvc://CLAIM/PATH or file:///PATH",
    )


def test_wrong_usage_reaches_the_termination_log(initialize: Initialize) -> None:
    outcome = initialize("/only-a-source")

    assert (outcome.exit_code, outcome.reason) == (
        2,
        "sources and destinations come in pairs, but 1 arguments were given; write SRC DEST [SRC DEST ...]",
    )


@pytest.mark.parametrize("content", [[], ["folder"], ["lost+found/debris"]])
def test_an_empty_source(initialize: Initialize, tmp_path: Path, models: Path, content: list[str]) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for path in content:
        (source / path).mkdir(parents=True)

    outcome = initialize(source, models)

    assert (outcome.exit_code, outcome.reason) == (6, f"{source}: there is no file in it; put the model there first")


@pytest.mark.parametrize("path", ["model-store/bert-model.mar", "model-store"])
def test_what_may_not_be_read_is_found_before_anything_is_copied(
    initialize: Initialize, open_path: Path, path: str
) -> None:
    source = write_volume(open_path / "source")
    closed = source / path
    closed.chmod(0)
    owner = closed.stat()

    with ordinary_user() as user:
        outcome = initialize(source, open_path / "models")

    closed.chmod(0o755)
    assert (outcome.exit_code, outcome.reason) == (
        7,
        f"{source}: {closed} (mode 0000, owner {owner.st_uid}:{owner.st_gid}) may not be read by user {user}; "
        "run chmod -R a+rX on the source",
    )
    assert outcome.log == [f"{source} → {open_path}/models"]


def _link(path: str, target: str) -> Callable[[Path], None]:
    return lambda source: (source / path).symlink_to(target)


def _pipe(name: bytes) -> Callable[[Path], None]:
    return lambda source: os.mkfifo(os.fsencode(source) + b"/" + name)


NOT_COPIED = {
    "a link out of it": (
        _link("model-store/secret", "/etc/hostname"), 8,
        "model-store/secret links to /etc/hostname, outside of the source; put a copy in the link's place",
    ),
    "a link to nothing": (_link("latest", "v7"), 5, "latest links to v7, which is not there; repair or remove it"),
    "a link to itself": (_link("loop", "loop"), 8, "loop is a link to itself; remove it"),
    "a link back to its own folder": (
        _link("config/up", ".."), 8, "config/up links back to a folder it is in; remove the link",
    ),
    "a pipe": (_pipe(b"pipe"), 8, "pipe is neither a file nor a folder; remove it"),
    "a name that is not UTF-8": (_pipe(b"pipe-\xff"), 8, "pipe-\\udcff is neither a file nor a folder; remove it"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "code", "complaint"), NOT_COPIED.values(), ids=NOT_COPIED)
def test_what_is_no_file_in_the_source(
    initialize: Initialize, leeway: Path, models: Path, make: Callable[[Path], None], code: int, complaint: str
) -> None:
    make(leeway)

    outcome = initialize(leeway, models)

    assert (outcome.exit_code, outcome.reason) == (code, f"{leeway}: {complaint}")


def test_a_link_from_one_claim_to_another(initialize: Initialize, leeway: Path, models: Path) -> None:
    write_volume(leeway.parent / "other")
    (leeway / "other").symlink_to("../other")

    outcome = initialize("pvc://leeway", models, "--pvc-root", leeway.parent)

    assert (outcome.exit_code, outcome.reason) == (
        8,
        f"pvc://leeway: other links to {leeway.parent}/other, outside of the source; put a copy in the link's place",
    )


@pytest.mark.parametrize(("source", "destination"), [("a", "a"), ("a/b", "a"), ("a", "a/b"), ("link", "a")])
def test_source_and_destination_overlap(initialize: Initialize, tmp_path: Path, source: str, destination: str) -> None:
    write_volume(tmp_path / "a/b")
    (tmp_path / "link").symlink_to("a")

    outcome = initialize(tmp_path / source, tmp_path / destination)

    assert (outcome.exit_code, outcome.reason) == (
        9,
        f"{tmp_path}/{source}: it overlaps with the destination {tmp_path}/{destination}; keep the two apart",
    )


def test_too_little_space_is_found_before_anything_is_copied(
    initialize: Initialize, tmp_path: Path, models: Path
) -> None:
    """A sparse file: as large as the file system allows, and no byte of it is there."""
    (tmp_path / "source").mkdir()
    with (tmp_path / "source/weights").open("wb") as stream:
        stream.truncate(10 << 40)

    outcome = initialize(tmp_path / "source", models)

    assert outcome.exit_code == 10
    assert re.fullmatch(
        rf"{tmp_path}/source: it needs 10\.0 TiB, but {models} has \d+\.\d [MGT]iB free; use a bigger volume or node",
        outcome.reason,
    )
    assert list(models.iterdir()) == []


def test_a_destination_that_cannot_be_written(initialize: Initialize, open_path: Path) -> None:
    source = write_volume(open_path / "source")
    (open_path / "models").mkdir(mode=0o555)

    with ordinary_user() as user:
        outcome = initialize(source, open_path / "models")

    assert (outcome.exit_code, outcome.reason) == (
        11,
        f"{source}: {open_path}/models cannot be written as user {user} (Permission denied); "
        "mount a writable volume there",
    )


def test_a_destination_that_is_a_file(initialize: Initialize, leeway: Path, models: Path) -> None:
    models.touch()

    outcome = initialize(leeway, models)

    assert (outcome.exit_code, outcome.reason) == (
        11,
        f"{leeway}: {models} cannot be written as user {os.geteuid()} (File exists); mount a writable volume there",
    )


@pytest.mark.parametrize("change", [lambda text: text + "more", lambda text: text[:-1], lambda text: text.swapcase()])
def test_a_file_that_changes_while_it_is_copied(leeway: Path, change: Callable[[str], str]) -> None:
    config = leeway / "config/config.properties"
    source = LocalSource(leeway, leeway)
    (file, *_) = source.list_files()

    def copy() -> None:
        with source.open(file, 0, file.size) as content:
            config.write_text(change(config.read_text()))
            os.utime(config, ns=(0, 0))
            # A file that only ever grew would never end.
            while content.readinto(memoryview(bytearray(100))):
                pass

    with pytest.raises(CopyError) as raised:
        copy()

    assert str(raised.value) == (
        "config/config.properties changed while it was copied; start again when it is complete"
    )


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        (
            MemorySource({"weights": b"abcd"}, cut=3),
            ServerError,
            "weights ended after 3 of 4 bytes; see whether it is still being written",
        ),
        (
            MemorySource({"weights": b"abc"}, checksum=Checksum("crc32", "00000001")),
            CopyError,
            "weights has the crc32 checksum 352441c2 instead of 00000001; copy it to the source again",
        ),
        (
            MemorySource({"weights": b"abc"}, failure=errno.ENOSPC),
            NoSpaceError,
            "{} filled up during the copy; use a bigger volume or node",
        ),
    ],
)
def test_a_copy_that_goes_wrong_leaves_what_was_there(
    models: Path, source: MemorySource, error: type[Exception], message: str
) -> None:
    models.mkdir()
    (models / "weights").write_bytes(b"of the run before")

    with pytest.raises(error) as raised:
        bring_alone(source, models)

    assert str(raised.value) == message.format(models)
    assert {path.name: path.read_bytes() for path in models.iterdir() if path.is_file()} == {
        "weights": b"of the run before"
    }
    assert (models / STAGING).exists() == raised.value.may_pass


def test_when_the_second_source_fails_nothing_of_the_first_is_to_be_seen(
    initialize: Initialize, leeway: Path, models: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()

    outcome = initialize(leeway, models / "base", tmp_path / "empty", models / "adapters")

    assert (outcome.exit_code, outcome.reason) == (
        6,
        f"{tmp_path}/empty: there is no file in it; put the model there first",
    )
    assert "copied model-store/bert-model.mar" in "\n".join(outcome.log)
    assert read_tree(models) == {}


def test_a_source_that_cannot_be_is_found_before_another_is_copied(
    initialize: Initialize, leeway: Path, models: Path, tmp_path: Path
) -> None:
    outcome = initialize(leeway, models / "base", tmp_path / "missing", models / "adapters")

    assert (outcome.exit_code, outcome.reason, outcome.log) == (
        5,
        f"{tmp_path}/missing: there is no missing in {tmp_path}; there is pvc",
        [],
    )


def test_when_the_second_source_cannot_be_put_in_place_the_first_gives_way_again(
    initialize: Initialize, leeway: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = write_files(models, {"base/config/config.properties": b"of the run before", "base/other": b"not ours"})
    rename = Path.rename

    def refuse(path: Path, target: Path) -> Path:
        if target == models / "adapters/weights":
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuse)
    (leeway.parent / "adapters").mkdir()
    (leeway.parent / "adapters/weights").write_bytes(b"x")

    outcome = initialize(leeway, models / "base", leeway.parent / "adapters", models / "adapters")

    assert (outcome.exit_code, outcome.reason) == (
        11,
        f"{leeway.parent}/adapters: {models}/adapters cannot be written as user {os.geteuid()} "
        "(Device or resource busy); mount a writable volume there",
    )
    assert read_tree(models) == before


def test_an_unforeseen_error_is_one_line_and_its_traceback_is_in_the_log(
    initialize: Initialize, leeway: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(*_: object) -> None:
        raise ZeroDivisionError("two\nlines")

    monkeypatch.setattr("storage_initializer.cli.open_source", explode)

    outcome = initialize(leeway, models)

    assert (outcome.exit_code, outcome.reason) == (
        1,
        r"unexpected ZeroDivisionError: two\nlines; the traceback is in the log",
    )
    assert outcome.log[0] == "unexpected"
    assert outcome.log[1] == "  Traceback (most recent call last):"
    assert {line[:2] for line in outcome.log[1:]} == {"  "}
    assert outcome.log[-2:] == ["  ZeroDivisionError: two", "  lines"]


def test_a_termination_log_that_cannot_be_written_is_ignored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from storage_initializer.cli import main

    code = main(["hdfs://a/b", str(tmp_path)], {"TERMINATION_LOG": str(tmp_path / "missing/folder/log")})

    assert code == 3
    assert capsys.readouterr().err.startswith("hdfs://a/b: hdfs:// is not supported")
