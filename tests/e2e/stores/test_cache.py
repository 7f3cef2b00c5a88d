"""The node's cache and unpacking, through the command and from a store."""

from __future__ import annotations

import io
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.e2e.stores.conftest import Store
from tests.integration.storage.conftest import Initialize, Outcome
from tests.support.model_folder import read_tree

MODEL = {"config.json": b"{}", "weights/1.bin": bytes(range(256)) * 8192}


@pytest.fixture
def cache(tmp_path: Path) -> dict[str, str]:
    return {"STORAGE_CACHE": str(tmp_path / "cache"), "STORAGE_CACHE_SIZE": str(64 << 20)}


def zip_of(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with ZipFile(packed, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


def was_downloaded(outcome: Outcome) -> bool:
    assert outcome.exit_code == 0, outcome.reason
    return any(line.startswith("copied ") for line in outcome.log)


def test_the_second_pod_takes_the_model_from_the_node(
    initialize: Initialize, store: Store, tmp_path: Path, cache: dict[str, str]
) -> None:
    uri, environment = store.fill(MODEL), store.environment() | cache

    assert was_downloaded(initialize(uri, tmp_path / "first", **environment))
    second = initialize(uri, tmp_path / "second", **environment)

    assert not was_downloaded(second)
    assert second.log[-2:][0] == "from the node's cache: 2 linked"
    assert second.log[-1].startswith("done: 2 files, 2.0 MiB in ")
    assert read_tree(tmp_path / "first") == read_tree(tmp_path / "second") == MODEL


def test_what_has_changed_in_the_store_is_downloaded_again(
    initialize: Initialize, store: Store, tmp_path: Path, cache: dict[str, str]
) -> None:
    uri, environment = store.fill(MODEL), store.environment() | cache
    initialize(uri, tmp_path / "first", **environment)
    store.server.put(uri.rpartition("/")[2], "config.json", b"[]")

    assert was_downloaded(initialize(uri, tmp_path / "second", **environment))
    assert read_tree(tmp_path / "second") == {**MODEL, "config.json": b"[]"}


def test_who_may_not_read_the_store_gets_nothing_from_the_node(
    initialize: Initialize, bucket: Store, tmp_path: Path, cache: dict[str, str]
) -> None:
    uri, environment = bucket.fill(MODEL), bucket.environment() | cache
    initialize(uri, tmp_path / "first", **environment)

    outcome = initialize(uri, tmp_path / "second", **environment | {"AWS_SECRET_ACCESS_KEY": "guessed"})

    assert (outcome.exit_code, read_tree(tmp_path / "second")) == (7, {})


def test_local_files_are_not_kept(initialize: Initialize, tmp_path: Path, cache: dict[str, str]) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source/weights.bin").write_bytes(b"w")

    outcome = initialize(tmp_path / "source", tmp_path / "models", **cache)

    assert "not kept in the node's cache: files and claims are read where they are" in outcome.log
    assert not (tmp_path / "cache").exists()


def test_an_archive_is_unpacked_once_for_the_node(
    initialize: Initialize, store: Store, tmp_path: Path, cache: dict[str, str]
) -> None:
    uri, environment = store.fill({"a/model.zip": zip_of(MODEL)}), store.environment() | cache

    first = initialize(f"{uri}/a", tmp_path / "first", **environment)
    second = initialize(f"{uri}/a/model.zip", tmp_path / "second", **environment)
    third = initialize(f"{uri}/a", tmp_path / "third", **environment)

    assert [any(line.startswith("unpacked 2 files") for line in each.log) for each in (first, second, third)] == [
        True, True, False,
    ]  # fmt: skip
    assert read_tree(tmp_path / "first") == read_tree(tmp_path / "second") == read_tree(tmp_path / "third") == MODEL
