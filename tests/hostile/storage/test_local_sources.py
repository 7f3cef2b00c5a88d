"""Claims and folders that change while they are read, or have no end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from storage_initializer import limits
from tests.hostile.storage.stores import visible
from tests.integration.storage.conftest import Initialize
from tests.support.cache_pods import write_files


def test_a_file_that_becomes_a_link_after_it_was_listed_is_not_followed(
    initialize: Initialize, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder is swapped for a link between the look at the path and the opening."""
    claim = tmp_path / "pvc/claim"
    write_files(claim, {"a/token": b"x"})
    write_files(tmp_path / "secret", {"token": b"s3cret"})
    realpath = os.path.realpath

    def swap(path: Path, *, strict: bool = False) -> str:
        found = realpath(path, strict=strict)
        if str(path).endswith("a/token") and not (claim / "a").is_symlink():
            (claim / "a").rename(tmp_path / "away")
            (claim / "a").symlink_to(tmp_path / "secret")
        return found

    monkeypatch.setattr("storage_initializer.backends.local.os.path.realpath", swap)

    outcome = initialize("pvc://claim", models, "--pvc-root", tmp_path / "pvc")

    assert (outcome.exit_code, visible(models)) == (8, {})
    assert outcome.reason.endswith("became another file while it was opened; start again")


def test_folders_without_an_end_are_refused(initialize: Initialize, models: Path, tmp_path: Path) -> None:
    folder = tmp_path / "source"
    for _ in range(limits.MAX_DEPTH + 2):
        folder /= "d"
    folder.mkdir(parents=True)

    outcome = initialize(tmp_path / "source", models)

    assert outcome.exit_code == 8
    assert outcome.reason.endswith("lies in more than 100 folders; move it up")


def test_links_that_multiply_are_refused(
    initialize: Initialize, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four folders of ten links to the next make ten thousand files of one."""
    monkeypatch.setattr("storage_initializer.sources.MAX_FILES", 1000)
    source = tmp_path / "source"
    write_files(source, {"4/weights": b"x"})
    for number in range(4):
        (source / str(number)).mkdir()
        for link in range(10):
            (source / str(number) / str(link)).symlink_to(source / str(number + 1))

    outcome = initialize(source, models)

    assert (outcome.exit_code, outcome.reason) == (
        8,
        f"{source}: there are more than 1,000 files in it; name the folder of the model alone",
    )
