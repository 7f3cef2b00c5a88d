"""What a run leaves behind when it succeeds."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from collections import namedtuple
from pathlib import Path

import pytest

from tests.integration.storage.conftest import Initialize, ordinary_user
from tests.support.model_folder import STORY_CONFIG, read_tree, write_files, write_volume


@pytest.fixture
def claims(tmp_path: Path) -> Path:
    """Where claims are mounted; `leeway` is the story's."""
    root = tmp_path / "pvc"
    write_volume(root / "leeway")
    return root


def test_the_storys_claim_arrives_whole(initialize: Initialize, claims: Path, tmp_path: Path) -> None:
    outcome = initialize("pvc://leeway", tmp_path / "models", STORAGE_PVC_ROOT=str(claims))

    size = (claims / "leeway/model-store/bert-model.mar").stat().st_size
    summary = outcome.log.pop()
    first, *copied, last = outcome.log
    assert (first, sorted(copied), last) == (
        f"pvc://leeway → {tmp_path}/models",
        [
            f"copied config/config.properties ({len(STORY_CONFIG)} B)",
            f"copied model-store/bert-model.mar ({size} B)",
        ],
        "checked model-store/bert-model.mar (model_snapshot, model bert, version 1.0)",
    )
    assert summary.startswith(f"done: 2 files, {size + len(STORY_CONFIG)} B in ")
    assert outcome.exit_code == 0
    assert read_tree(tmp_path / "models") == read_tree(claims / "leeway")


def test_the_folder_for_packages_is_the_users_alone(initialize: Initialize, claims: Path, tmp_path: Path) -> None:
    packages = tmp_path / "cache/packages/default/models"

    outcome = initialize(claims / "leeway", tmp_path / "models", PACKAGE_CACHE=str(packages))

    assert (outcome.exit_code, stat.S_IMODE(packages.stat().st_mode)) == (0, 0o700)


def test_a_folder_for_packages_that_cannot_be_created_is_said(
    initialize: Initialize, claims: Path, tmp_path: Path
) -> None:
    (tmp_path / "cache").touch()
    packages = str(tmp_path / "cache/packages")

    outcome = initialize(claims / "leeway", tmp_path / "models", PACKAGE_CACHE=packages)

    said = f"the server cannot keep packages on the node: {packages} cannot be created (Not a directory)"
    assert (outcome.exit_code, outcome.log[0]) == (0, said)


@pytest.mark.parametrize("form", ["{}", "file://{}", "file://localhost{}"])
def test_a_local_folder_is_copied(initialize: Initialize, claims: Path, tmp_path: Path, form: str) -> None:
    assert initialize(form.format(claims / "leeway"), tmp_path / "models").exit_code == 0
    assert read_tree(tmp_path / "models") == read_tree(claims / "leeway")


def test_a_source_may_be_one_file(initialize: Initialize, claims: Path, tmp_path: Path) -> None:
    archive = "leeway/model-store/bert-model.mar"

    outcome = initialize(f"pvc://{archive}", tmp_path / "models", "--pvc-root", claims, "--layout", "none")

    assert outcome.exit_code == 0
    assert read_tree(tmp_path / "models") == {"bert-model.mar": (claims / archive).read_bytes()}


@pytest.mark.parametrize(("content", "exit_code"), [(b"as it was issued", 0), (b"another", 12)])
def test_a_file_of_a_folder_must_have_the_checksum_that_is_given(
    initialize: Initialize, tmp_path: Path, content: bytes, exit_code: int
) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source/model.bin").write_bytes(content)
    given = json.dumps({"model.bin": hashlib.sha256(b"as it was issued").hexdigest()})

    assert initialize(tmp_path / "source", tmp_path / "models", STORAGE_SHA256=given).exit_code == exit_code


def test_a_second_run_replaces_the_first(initialize: Initialize, claims: Path, tmp_path: Path) -> None:
    initialize(claims / "leeway", tmp_path / "models")
    (tmp_path / "models/of-somebody-else").write_text("stays")
    (claims / "leeway/model-store/second.mar").write_bytes(b"new")
    (claims / "leeway/config/config.properties").write_text(STORY_CONFIG + "# new\n")

    assert initialize(claims / "leeway", tmp_path / "models").exit_code == 0
    assert read_tree(tmp_path / "models") == {**read_tree(claims / "leeway"), "of-somebody-else": b"stays"}


def test_the_leftovers_of_a_killed_run_are_removed(initialize: Initialize, claims: Path, tmp_path: Path) -> None:
    leftover = tmp_path / "models/.storage-initializer/new/model-store/half.mar"
    leftover.parent.mkdir(parents=True)
    leftover.write_bytes(b"half")

    assert initialize(claims / "leeway", tmp_path / "models").exit_code == 0
    assert read_tree(tmp_path / "models") == read_tree(claims / "leeway")
    assert not (tmp_path / "models/.storage-initializer").exists()


def test_what_a_killed_run_has_left_in_the_source_is_named_and_left_out(
    initialize: Initialize, claims: Path, tmp_path: Path
) -> None:
    write_files(claims / "leeway/.storage-initializer/new", {"half.mar": b"half"})

    outcome = initialize(claims / "leeway", tmp_path / "models")

    assert outcome.exit_code == 0
    assert "left out: 1 file below .storage-initializer, the storage-initializer's own folder" in outcome.log
    assert ".storage-initializer" not in {name.partition("/")[0] for name in read_tree(tmp_path / "models")}


def test_a_source_with_nothing_but_leftovers_is_empty(initialize: Initialize, claims: Path, tmp_path: Path) -> None:
    write_files(claims / "other/.storage-initializer-1", {"half.mar": b"half"})

    outcome = initialize(claims / "other", tmp_path / "models", "--layout", "none")

    assert (outcome.exit_code, "there is nothing in it but 1 file below" in outcome.reason) == (6, True)


def test_an_earlier_copy_gives_way_when_there_is_no_room_for_two(
    initialize: Initialize, claims: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    initialize(claims / "leeway", tmp_path / "models")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: namedtuple("Usage", "free")(free=10))

    outcome = initialize(claims / "leeway", tmp_path / "models")

    assert (outcome.exit_code, outcome.log[1]) == (0, "removing the earlier copy to make room")
    assert read_tree(tmp_path / "models") == read_tree(claims / "leeway")


def test_links_inside_the_source_become_what_they_lead_to(initialize: Initialize, claims: Path, tmp_path: Path) -> None:
    leeway = claims / "leeway"
    blobs = leeway / "blobs"
    (leeway / "model-store").rename(blobs)
    (leeway / "model-store").mkdir()
    (leeway / "model-store/bert-model.mar").symlink_to("../blobs/bert-model.mar")
    (leeway / "latest").symlink_to("config")

    assert initialize(leeway, tmp_path / "models").exit_code == 0
    copied = tmp_path / "models"
    assert read_tree(copied)["model-store/bert-model.mar"] == (blobs / "bert-model.mar").read_bytes()
    assert read_tree(copied)["latest/config.properties"] == STORY_CONFIG.encode()
    assert not [path for path in copied.rglob("*") if path.is_symlink()]


def test_links_of_a_folder_in_a_claim_may_lead_through_the_claim(
    initialize: Initialize, claims: Path, tmp_path: Path
) -> None:
    (claims / "hub/blobs").mkdir(parents=True)
    (claims / "hub/blobs/abc").write_bytes(b"weights")
    (claims / "hub/snapshots/main").mkdir(parents=True)
    (claims / "hub/snapshots/main/model.pt").symlink_to("../../blobs/abc")

    assert initialize("pvc://hub/snapshots/main", tmp_path / "models", "--pvc-root", claims).exit_code == 0
    assert read_tree(tmp_path / "models") == {"model.pt": b"weights"}


def test_every_user_can_read_the_copy(initialize: Initialize, claims: Path, tmp_path: Path) -> None:
    leeway = claims / "leeway"
    (leeway / "tool.sh").write_text("#!/bin/sh\n")
    (leeway / "tool.sh").chmod(0o700)
    for private in ("config/config.properties", "model-store/bert-model.mar"):
        (leeway / private).chmod(0o400)
    (leeway / "config").chmod(0o700)
    before = os.umask(0o077)

    outcome = initialize(leeway, tmp_path / "models")

    os.umask(before)
    modes = {
        str(path.relative_to(tmp_path / "models")): stat.S_IMODE(path.stat().st_mode)
        for path in (tmp_path / "models").rglob("*")
    }
    assert outcome.exit_code == 0
    assert modes == {
        "config": 0o755,
        "config/config.properties": 0o644,
        "model-store": 0o755,
        "model-store/bert-model.mar": 0o644,
        "tool.sh": 0o755,
    }


def test_a_read_only_source_of_root_is_enough(initialize: Initialize, open_path: Path) -> None:
    """Root's only where the test runs as root."""
    source = write_volume(open_path / "source")
    folders = [source, source / "config", source / "model-store"]
    for path in source.rglob("*.*"):
        path.chmod(0o444)
    for folder in folders:
        folder.chmod(0o555)

    with ordinary_user():
        outcome = initialize(source, open_path / "models")

    assert outcome.exit_code == 0
    assert read_tree(open_path / "models") == read_tree(source)
    for folder in folders:
        folder.chmod(0o755)


@pytest.mark.parametrize(
    "name", ["Modell für später.mar", "50%.mar", "a#b?.mar", "-rf", "..data", "new", "old", "a\nb", "\udcff"]
)
def test_any_file_name_survives(initialize: Initialize, tmp_path: Path, name: str) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / name).write_bytes(b"content")

    assert initialize(tmp_path / "source", tmp_path / "models", "--layout", "none").exit_code == 0
    assert read_tree(tmp_path / "models") == {name: b"content"}


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 5_000_000])
def test_any_file_size_survives(initialize: Initialize, tmp_path: Path, size: int) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source/config").write_bytes(b"{}")
    (tmp_path / "source/weights").write_bytes(os.urandom(size))

    assert initialize(tmp_path / "source", tmp_path / "models").exit_code == 0
    assert read_tree(tmp_path / "models") == read_tree(tmp_path / "source")


def test_two_thousand_files_are_not_named_one_by_one(initialize: Initialize, tmp_path: Path) -> None:
    for number in range(2000):
        path = tmp_path / f"source/{number % 40}/{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(number))

    outcome = initialize(tmp_path / "source", tmp_path / "models")

    assert outcome.exit_code == 0
    assert not [line for line in outcome.log if line.startswith("copied")]
    assert read_tree(tmp_path / "models") == read_tree(tmp_path / "source")


def test_sources_may_share_a_destination_or_lie_in_one_another(initialize: Initialize, tmp_path: Path) -> None:
    """As if they were brought one after the other: what comes later replaces entries of the same name."""
    models = tmp_path / "models"
    write_files(tmp_path / "1", {"config.json": b"1", "adapters/1": b"1"})
    write_files(tmp_path / "2", {"config.json": b"2"})
    write_files(tmp_path / "3", {"weights": b"3"})
    write_files(models, {"adapters/weights": b"of the run before"})

    outcome = initialize(tmp_path / "1", models, tmp_path / "2", models, tmp_path / "3", models / "adapters")

    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert read_tree(models) == {"config.json": b"2", "adapters/1": b"1", "adapters/weights": b"3"}
