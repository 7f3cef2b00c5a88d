"""Staging folders and caches that others can write to."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

import pytest

from storage_initializer.cache import NodeCache
from storage_initializer.transfer import STAGING
from tests.hostile.storage.stores import MIB, visible
from tests.integration.storage.conftest import Initialize
from tests.support.cache_pods import FILES, LISTING, write_files
from tests.support.model_folder import read_tree, write_volume


def test_a_link_in_the_place_of_the_staging_folder_is_not_followed(
    initialize: Initialize, models: Path, tmp_path: Path, victim: Path
) -> None:
    source = write_volume(tmp_path / "source")
    models.mkdir()
    (models / STAGING).symlink_to(victim)

    outcome = initialize(source, models)

    assert (outcome.exit_code, visible(models)) == (0, read_tree(source))
    assert not os.path.lexists(models / STAGING)


def test_a_staging_folder_that_others_can_write_to_is_made_anew(
    initialize: Initialize, models: Path, tmp_path: Path, victim: Path
) -> None:
    source = write_volume(tmp_path / "source")
    (models / STAGING).mkdir(parents=True)
    (models / STAGING).chmod(0o777)
    (models / STAGING / "arriving").symlink_to(victim)

    outcome = initialize(source, models)

    assert (outcome.exit_code, visible(models)) == (0, read_tree(source))


def test_what_a_killed_run_has_left_in_a_claim_is_not_brought_along(
    initialize: Initialize, models: Path, tmp_path: Path
) -> None:
    write_files(tmp_path / "source", {"w": b"x", f"{STAGING}/arriving/w": b"half", f"{STAGING}.md": b"notes"})

    outcome = initialize(tmp_path / "source", models)

    assert (outcome.exit_code, read_tree(models)) == (0, {"w": b"x", f"{STAGING}.md": b"notes"})


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelno == logging.WARNING]


def fill(work: Path) -> Path:
    return write_files(work / "new")


def test_in_a_shared_folder_the_cache_is_one_of_this_user_alone(shared: Path, tmp_path: Path) -> None:
    cache = NodeCache(shared, 100 * MIB, boot="1")

    assert cache.provide("s3://models/bert", LISTING, fill, target=tmp_path / "first")
    assert cache.provide("s3://models/bert", LISTING, no_fill, target=tmp_path / "second")

    (own,) = shared.iterdir()
    assert (own.name, own.stat().st_mode & 0o777) == (f"user-{os.geteuid()}", 0o700)
    assert (own / "locks").stat().st_mode & 0o777 == 0o700
    assert read_tree(tmp_path / "second") == FILES


def no_fill(work: Path) -> Path:
    raise AssertionError("it is there")


def test_a_folder_of_our_own_keeps_the_entries_itself(tmp_path: Path) -> None:
    cache = NodeCache(tmp_path / "own", 100 * MIB, boot="1")

    assert cache.provide("s3://models/bert", LISTING, fill, target=tmp_path / "models")
    assert len(list((tmp_path / "own").glob("*/manifest.json"))) == 1


def test_a_link_in_the_place_of_the_caches_folder_is_not_followed(
    shared: Path, tmp_path: Path, victim: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (shared / f"user-{os.geteuid()}").symlink_to(victim)

    assert not NodeCache(shared, 100 * MIB, boot="1").provide(
        "s3://models/bert", LISTING, fill, target=tmp_path / "models"
    )
    assert warnings(caplog) == [f"the node's cache {shared} cannot be used (Not a directory); downloading without it"]


def test_a_folder_of_another_user_in_the_place_of_the_caches_is_not_used(
    shared: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where it has an entry of the very model."""
    theirs = NodeCache(tmp_path / "theirs", 100 * MIB, boot="1")
    assert theirs.provide("s3://models/bert", LISTING, fill, target=tmp_path / "first")
    name = f"user-{os.geteuid()}"
    theirs.root.rename(shared / name)
    for path in ((shared / name), *(shared / name).rglob("*")):
        os.chown(path, 2000, 2000)

    assert not NodeCache(shared, 100 * MIB, boot="1").provide(
        "s3://models/bert", LISTING, fill, target=tmp_path / "models"
    )
    assert warnings(caplog) == [
        f"the node's cache {shared} cannot be used (the folder {name} in it is another user's); downloading without it"
    ]


def test_what_the_group_was_given_by_the_kubelet_is_taken_away_again(shared: Path, tmp_path: Path) -> None:
    cache = NodeCache(shared, 100 * MIB, boot="1")
    assert cache.provide("s3://models/bert", LISTING, fill, target=tmp_path / "first")
    own = shared / f"user-{os.geteuid()}"
    own.chmod(0o2770)

    assert cache.provide("s3://models/bert", LISTING, no_fill, target=tmp_path / "second")
    assert own.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_is_swapped_while_it_is_in_use_changes_nothing(
    shared: Path, tmp_path: Path, victim: Path
) -> None:
    own = shared / f"user-{os.geteuid()}"

    def swap(work: Path) -> Path:
        own.rename(shared / "away")
        own.symlink_to(victim)
        return fill(work)

    cache = NodeCache(shared, 100 * MIB, boot="1")

    assert cache.provide("s3://models/bert", LISTING, swap, target=tmp_path / "models")
    assert read_tree(tmp_path / "models") == FILES


def test_what_else_is_in_the_folder_is_not_removed_to_make_room(tmp_path: Path, victim: Path) -> None:
    shutil.copytree(victim, tmp_path / "cache/another program's")
    cache = NodeCache(tmp_path / "cache", sum(map(len, FILES.values())), boot="1")

    assert cache.provide("s3://models/bert", LISTING, fill, target=tmp_path / "1")
    assert cache.provide("s3://models/other", LISTING, fill, target=tmp_path / "2")
    assert read_tree(tmp_path / "cache/another program's") == read_tree(victim)


def test_a_lock_that_is_never_released_is_waited_for_no_longer_than_allowed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache = NodeCache(tmp_path / "cache", 100 * MIB, boot="1", wait_s=0.2)

    def fill_twice(work: Path) -> Path:
        """While this one is being filled, another pod asks."""
        assert not cache.provide("s3://models/bert", LISTING, no_fill, target=tmp_path / "second")
        return fill(work)

    assert cache.provide("s3://models/bert", LISTING, fill_twice, target=tmp_path / "first")
    assert warnings(caplog) == [
        f"the node's cache {cache.root} cannot be used (another pod has been filling it for too long); "
        "downloading without it"
    ]
