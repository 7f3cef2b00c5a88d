"""Disks that are full, and a run that is killed."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from storage_initializer.transfer import STAGING
from tests.hostile.storage.stores import MIB, ONCE, listing, s3_environment, store, visible
from tests.integration.storage.conftest import Initialize, ordinary_user
from tests.support.cache_pods import write_files
from tests.support.initializer_forks import forks
from tests.support.model_folder import packed_zip, read_tree
from tests.support.object_stores.proxy import Answer, Endless, Request, proxy
from tests.support.waiting import eventually


def test_a_run_killed_at_its_second_source_has_put_nothing_in_place_and_the_next_one_does(
    models: Path, tmp_path: Path
) -> None:
    """The second file comes byte by byte until then."""
    content = {"/base.bin": os.urandom(MIB), "/adapter.zip": packed_zip({"lora": b"lora"})}
    killed: list[int] = []

    def decide(request: Request) -> Answer | Endless:
        stalls = request.target == "/adapter.zip" and not killed
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
        return Endless(head, b"x", every_s=0.05) if stalls else Answer(200, content[request.target])

    with proxy(None, decide) as server, forks() as runs:
        pairs = (f"{server.url}/base.bin", models / "base", f"{server.url}/adapter.zip", models / "adapters")
        environment = {"TERMINATION_LOG": str(tmp_path / "reason")}
        run = runs.start(*pairs, environment=environment)
        arriving = models / "adapters" / STAGING / "arriving/adapter.zip"
        eventually(arriving.exists, "the second file is asked for")
        killed.append(run.kill_after(0))
        after_the_kill = {path for path in read_tree(models) if STAGING not in path}

        assert runs.start(*pairs, environment=environment).exit_code() == 0

    assert (killed, after_the_kill) == ([-signal.SIGKILL], set())
    assert read_tree(models) == {"base/base.bin": content["/base.bin"], "adapters/lora": b"lora"}


def test_an_archive_that_does_not_fit_leaves_nothing(initialize: Initialize, small_disk: Path) -> None:
    archive = packed_zip({"1.bin": os.urandom(MIB), "2.bin": os.urandom(MIB), "3.bin": os.urandom(MIB)})
    with proxy(None, lambda _: Answer(200, archive)) as server:
        outcome = initialize(f"{server.url}/42", small_disk / "models", **ONCE)

    assert outcome.exit_code == 10
    assert list((small_disk / "models").iterdir()) == []


def test_a_disk_that_fills_up_for_the_second_source_leaves_nothing_of_the_first(
    initialize: Initialize, small_disk: Path, tmp_path: Path
) -> None:
    write_files(tmp_path / "1", {"weights": bytes(3 * MIB)})
    write_files(tmp_path / "2", {"weights": bytes(2 * MIB)})

    outcome = initialize(tmp_path / "1", small_disk / "models/1", tmp_path / "2", small_disk / "models/2")

    assert (outcome.exit_code, read_tree(small_disk)) == (10, {})


def test_a_cache_whose_disk_is_full_is_done_without(initialize: Initialize, small_disk: Path, models: Path) -> None:
    content = bytes(5 * MIB)
    with proxy(None, store(listing(("m/weights", str(len(content)))), content)) as server:
        cache = {"STORAGE_CACHE": str(small_disk / "cache"), "STORAGE_CACHE_SIZE": str(100 * MIB)}
        outcome = initialize("s3://models/m", models, **s3_environment(server.url), **cache)

    assert (outcome.exit_code, visible(models)) == (0, {"weights": content})
    assert "cannot be used (its disk has 4.0 MiB free); downloading without it" in "\n".join(outcome.log)
    assert outcome.log[-1].startswith("done: 1 file, 5.0 MiB")


def test_a_cache_whose_disk_fills_up_during_the_download_is_done_without(
    initialize: Initialize, small_disk: Path, models: Path
) -> None:
    content = bytes(3 * MIB)

    def decide(request: Request) -> Answer:
        if request.method == "GET" and "list-type" not in request.target:
            (small_disk / "of another program").write_bytes(bytes(2 * MIB))
        return store(listing(("m/weights", str(len(content)))), content)(request)

    with proxy(None, decide) as server:
        cache = {"STORAGE_CACHE": str(small_disk / "cache"), "STORAGE_CACHE_SIZE": str(100 * MIB)}
        outcome = initialize("s3://models/m", models, **s3_environment(server.url), **cache)

    assert (outcome.exit_code, visible(models)) == (0, {"weights": content})
    assert "cannot be used (No space left on device); downloading without it" in "\n".join(outcome.log)
    assert outcome.log[-1].startswith("done: 1 file, 3.0 MiB")


@pytest.mark.parametrize("address", ["42", "download?path=/model.zip"])
def test_a_bomb_is_refused_whatever_its_address(
    initialize: Initialize, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setattr("model_archive.contents.HARMLESS_SIZE", MIB)
    with ZipFile(tmp_path / "bomb", "w", ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(64 * MIB))
    with proxy(None, lambda _: Answer(200, (tmp_path / "bomb").read_bytes())) as server:
        outcome = initialize(f"{server.url}/{address}", models, **ONCE)

    assert (outcome.exit_code, visible(models)) == (14, {})
    assert re.search("claims to unpack to 64.0 MiB or more; do not use it", outcome.reason)


def test_an_ordinary_user_meets_the_same_bounds(initialize: Initialize, tmp_path: Path, small_disk: Path) -> None:
    """As a pod does: root could write to what is full or another's."""
    small_disk.chmod(0o777)
    (tmp_path / "termination-log").chmod(0o666)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid():
            folder.chmod(folder.stat().st_mode | 0o011)
    with proxy(None, store(listing(("m/weights", str(5 * MIB))))) as server, ordinary_user():
        outcome = initialize("s3://models/m", small_disk / "models", **s3_environment(server.url))

    assert outcome.exit_code == 10
