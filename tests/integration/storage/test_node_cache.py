"""The node's cache: between processes, against damage, within its size, and out of the way when it cannot help."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from storage_initializer import cache_entry
from storage_initializer.cache import NodeCache
from storage_initializer.cache_entry import Entry
from storage_initializer.checksums import checksum_of
from storage_initializer.errors import CopyError
from storage_initializer.limits import CACHE_ATTEMPTS
from storage_initializer.sources import Checksum, SourceFile
from tests.integration.storage.conftest import ordinary_user
from tests.support.cache_pods import FILES, LISTING, Pod, write_files
from tests.support.model_folder import read_tree

SOURCE = "s3://models/bert"
SIZE = sum(map(len, FILES.values()))
WAITING = "waiting for another pod, which fills the node's cache"


class Filler:
    """Downloads ``FILES``, and counts how often."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, work: Path) -> Path:
        self.times += 1
        return write_files(work / "new")


@pytest.fixture
def cache(tmp_path: Path) -> NodeCache:
    return NodeCache(tmp_path / "cache", limit=10 * SIZE, boot="first")


@pytest.fixture
def fill() -> Filler:
    return Filler()


@pytest.fixture(autouse=True)
def _log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "storage_initializer")


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelno == logging.WARNING]


def content_of(cache: NodeCache, name: str) -> Path:
    (path,) = cache.root.glob(f"*/files/{name}")
    return path


def entries(cache: NodeCache) -> list[str]:
    """Which sources it has, told by what the first file says."""
    return sorted(path.read_text() for path in cache.root.glob("*/files/source"))


# --- one after the other -----------------------------------------------------------------------------


def test_the_second_pod_downloads_nothing_and_shares_the_files(cache: NodeCache, fill: Filler, tmp_path: Path) -> None:
    assert cache.provide(SOURCE, LISTING, fill, target=tmp_path / "first")
    assert cache.provide(SOURCE, LISTING, fill, target=tmp_path / "second")

    assert fill.times == 1
    assert read_tree(tmp_path / "first") == read_tree(tmp_path / "second") == FILES
    links = [(tmp_path / pod / "model-store/bert.mar").stat() for pod in ("first", "second")]
    assert [(status.st_nlink, status.st_mode & 0o777) for status in links] == [(3, 0o444)] * 2


def test_what_has_changed_at_the_source_is_another_entry(cache: NodeCache, fill: Filler, tmp_path: Path) -> None:
    changed = (replace(LISTING[0], version="v2"), *LISTING[1:])

    cache.provide(SOURCE, LISTING, fill, target=tmp_path / "first")
    cache.provide(SOURCE, changed, fill, target=tmp_path / "changed")
    cache.provide("s3://other/bert", LISTING, fill, target=tmp_path / "elsewhere")

    assert fill.times == 3


def test_a_program_stays_one(cache: NodeCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", cannot(errno.EXDEV))

    def fill(work: Path) -> Path:
        write_files(work)
        (work / "config/config.properties").chmod(0o755)
        return work

    cache.provide(SOURCE, LISTING, fill, target=tmp_path / "models")

    modes = {name: (tmp_path / "models" / name).stat().st_mode & 0o777 for name in FILES}
    assert modes == {"config/config.properties": 0o755, "model-store/bert.mar": 0o644}


def test_a_model_that_others_push_out_at_once_is_downloaded_without_the_cache(
    cache: NodeCache, fill: Filler, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Entry.commit

    def commit_and_lose(entry: Entry, made: Path) -> None:
        commit(entry, made)
        entry.remove()

    monkeypatch.setattr(Entry, "commit", commit_and_lose)

    assert not cache.provide(SOURCE, LISTING, fill, target=tmp_path / "models")
    assert fill.times == CACHE_ATTEMPTS
    assert warnings(caplog) == [
        f"the node's cache {cache.root} cannot be used (other models push this one out at once); downloading without it"
    ]


# --- at the same time --------------------------------------------------------------------------------


def test_one_pod_downloads_while_the_others_wait_and_share(cache: NodeCache, tmp_path: Path) -> None:
    with ExitStack() as running, Pod(cache, tmp_path / "first") as first:
        assert first.hears() == "filling []"
        others = [running.enter_context(Pod(cache, tmp_path / str(number))) for number in range(3)]
        assert [pod.hears() for pod in others] == [WAITING] * 3

        first.go()

        assert [pod.hears() for pod in (first, *others)] == ["ended with True"] * 4
        assert [read_tree(pod.target) for pod in (first, *others)] == [FILES] * 4


def test_a_pod_that_is_killed_leaves_its_download_to_the_next(cache: NodeCache, tmp_path: Path) -> None:
    with Pod(cache, tmp_path / "killed") as killed:
        assert killed.hears() == "filling []"
        with Pod(cache, tmp_path / "next") as following:
            assert following.hears() == WAITING
            killed.kill()

            assert following.hears() == "filling ['first-part']"
            following.go()
            assert following.hears() == "ended with True"
            assert read_tree(tmp_path / "next") == FILES


def test_a_pod_that_is_stopped_stops_waiting(cache: NodeCache, tmp_path: Path) -> None:
    with Pod(cache, tmp_path / "first") as first:
        assert first.hears() == "filling []"
        with Pod(cache, tmp_path / "second") as second:
            assert second.hears() == WAITING

            second.terminate()
            assert second.hears() == "stopped by SIGTERM; start again to bring the model"

        first.go()
        assert first.hears() == "ended with True"


# --- damage ------------------------------------------------------------------------------------------


def truncate(cache: NodeCache) -> None:
    os.truncate(content_of(cache, "model-store/bert.mar"), 100)


def flip_a_bit(cache: NodeCache) -> None:
    """As a disk does it: the file's times stay."""
    path = content_of(cache, "model-store/bert.mar")
    status = path.stat()
    with path.open("r+b") as stream:
        stream.seek(7)
        stream.write(b"\xff")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def write_into(cache: NodeCache) -> None:
    with content_of(cache, "model-store/bert.mar").open("r+b") as stream:
        stream.write(b"\xff")


def lose(cache: NodeCache) -> None:
    content_of(cache, "model-store/bert.mar").unlink()


@pytest.mark.parametrize("damage", [truncate, flip_a_bit, write_into, lose])
def test_a_damaged_entry_is_found_and_fetched_again(
    cache: NodeCache,
    fill: Filler,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    damage: Callable[[NodeCache], None],
) -> None:
    cache.provide(SOURCE, LISTING, fill, target=tmp_path / "first")
    damage(cache)

    assert cache.provide(SOURCE, LISTING, fill, target=tmp_path / "second")

    assert (fill.times, read_tree(tmp_path / "second")) == (2, FILES)
    assert warnings(caplog) == [
        "damaged in the node's cache: model-store/bert.mar is not as it was; fetching it again",
    ]


def test_a_manifest_that_cannot_be_read_is_damage(
    cache: NodeCache, fill: Filler, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache.provide(SOURCE, LISTING, fill, target=tmp_path / "first")
    (manifest,) = cache.root.glob("*/manifest.json")
    manifest.write_bytes(b"[[")

    assert cache.provide(SOURCE, LISTING, fill, target=tmp_path / "second")

    assert (fill.times, read_tree(tmp_path / "second")) == (2, FILES)
    assert warnings(caplog) == ["damaged in the node's cache: its manifest cannot be read; fetching it again"]


def rewrite(cache: NodeCache, change: Callable[[list[Any]], None]) -> None:
    """As somebody does it who can write to the cache."""
    (manifest,) = cache.root.glob("*/manifest.json")
    files = json.loads(manifest.read_bytes())
    change(files)
    manifest.write_text(json.dumps(files))


def test_content_with_a_checksum_of_its_own_is_compared_with_the_sources(
    cache: NodeCache, fill: Filler, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    listing = [
        replace(file, checksum=Checksum("md5", hashlib.md5(FILES[str(file.path)]).hexdigest())) for file in LISTING
    ]
    cache.provide(SOURCE, listing, fill, target=tmp_path / "first")
    flip_a_bit(cache)
    changed = checksum_of(content_of(cache, "model-store/bert.mar"), "crc32").value
    rewrite(cache, lambda files: files[1].__setitem__(3, changed))

    assert cache.provide(SOURCE, listing, fill, target=tmp_path / "second")

    assert (fill.times, read_tree(tmp_path / "second")) == (2, FILES)
    assert warnings(caplog) == ["damaged in the node's cache: model-store/bert.mar is not as it was; fetching it again"]


OUTSIDE = "its manifest names a file outside of it"
OTHERS = "it has other files than the source"


@pytest.mark.parametrize(
    ("change", "damage"),
    [
        (lambda files: files[0].__setitem__(0, "../../../x"), OUTSIDE),
        (lambda files: files[0].__setitem__(0, "config/../../x"), OUTSIDE),
        (lambda files: files[0].__setitem__(0, "/etc/passwd"), OUTSIDE),
        (lambda files: files.append(["model-store/evil.mar", *files[0][1:]]), OTHERS),
        (lambda files: files.pop(), OTHERS),
        (lambda files: files[0].__setitem__(0, 7), "its manifest cannot be read"),
    ],
)
def test_a_manifest_with_other_files_than_the_sources_is_damage(
    cache: NodeCache,
    fill: Filler,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    change: Callable[[list[Any]], None],
    damage: str,
) -> None:
    cache.provide(SOURCE, LISTING, fill, target=tmp_path / "pod/first")
    rewrite(cache, change)

    assert cache.provide(SOURCE, LISTING, fill, target=tmp_path / "pod/second")

    assert (fill.times, read_tree(tmp_path / "pod/second")) == (2, FILES)
    assert warnings(caplog) == [f"damaged in the node's cache: {damage}; fetching it again"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "pod"]


@pytest.mark.parametrize("linked", ["model-store/bert.mar", "model-store"])
def test_a_link_in_an_entry_leads_nowhere(
    cache: NodeCache, fill: Filler, tmp_path: Path, caplog: pytest.LogCaptureFixture, linked: str
) -> None:
    cache.provide(SOURCE, LISTING, fill, target=tmp_path / "first")
    place = content_of(cache, linked)
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")

    assert cache.provide(SOURCE, LISTING, fill, target=tmp_path / "second")

    assert (fill.times, read_tree(tmp_path / "second")) == (2, FILES)
    assert warnings(caplog) == ["damaged in the node's cache: model-store/bert.mar is not as it was; fetching it again"]


def test_an_archive_is_kept_as_it_was_unpacked(cache: NodeCache, fill: Filler, tmp_path: Path) -> None:
    listing = [SourceFile(PurePosixPath("model.tar.gz"), 100, version="v1", checksum=Checksum("md5", "0" * 32))]

    assert cache.provide(SOURCE, listing, fill, target=tmp_path / "first")
    assert cache.provide(SOURCE, listing, fill, target=tmp_path / "second")

    assert (fill.times, read_tree(tmp_path / "second")) == (1, FILES)


def test_a_large_entry_is_read_whole_once_after_each_boot(
    cache: NodeCache, fill: Filler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_entry, "CACHE_READ_ALWAYS", 0)
    after_a_boot = replace(cache, boot="second")
    cache.provide(SOURCE, LISTING, fill, target=tmp_path / "1")
    flip_a_bit(cache)

    cache.provide(SOURCE, LISTING, fill, target=tmp_path / "2")
    assert fill.times == 1
    after_a_boot.provide(SOURCE, LISTING, fill, target=tmp_path / "3")
    assert (fill.times, read_tree(tmp_path / "3")) == (2, FILES)


def test_what_somebody_adds_to_an_entry_reaches_no_pod(cache: NodeCache, fill: Filler, tmp_path: Path) -> None:
    cache.provide(SOURCE, LISTING, fill, target=tmp_path / "first")
    content_of(cache, "model-store").joinpath("evil.mar").write_bytes(b"evil")

    cache.provide(SOURCE, LISTING, fill, target=tmp_path / "second")

    assert (fill.times, read_tree(tmp_path / "second")) == (1, FILES)


def test_where_boots_cannot_be_told_apart_every_use_reads_all(
    cache: NodeCache, fill: Filler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_entry, "CACHE_READ_ALWAYS", 0)
    bootless = replace(cache, boot="")
    bootless.provide(SOURCE, LISTING, fill, target=tmp_path / "1")
    flip_a_bit(cache)

    bootless.provide(SOURCE, LISTING, fill, target=tmp_path / "2")

    assert (fill.times, read_tree(tmp_path / "2")) == (2, FILES)


@pytest.mark.parametrize("last_step", ["rename", "touch", "write_text"])
def test_an_entry_that_was_not_finished_does_not_count(
    cache: NodeCache, fill: Filler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last_step: str
) -> None:
    """Whatever was the last thing that a pod did before it was killed."""
    original, broken = getattr(Path, last_step), set()

    def killed(path: Path, *arguments: object, **options: object) -> object:
        if path.name.startswith(("manifest", "new", "checked")):
            broken.add(path.name)
            raise KeyboardInterrupt
        return original(path, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, last_step, killed)
        with pytest.raises(KeyboardInterrupt):
            cache.provide(SOURCE, LISTING, fill, target=tmp_path / "first")

    assert broken
    assert cache.provide(SOURCE, LISTING, fill, target=tmp_path / "second")
    assert (fill.times, read_tree(tmp_path / "second")) == (2, FILES)


# --- its size ----------------------------------------------------------------------------------------


def bring_named(cache: NodeCache, name: str, tmp_path: Path) -> bool:
    """An entry of 100 bytes that knows its name."""
    listing = (SourceFile(Path("source"), len(name), version="1"), SourceFile(Path("w"), 100 - len(name), version="1"))
    content = {"source": name.encode(), "w": bytes(100 - len(name))}
    target = tmp_path / f"pod-{len(list(tmp_path.iterdir()))}"
    return cache.provide(name, listing, lambda work: write_files(work / "new", content), target=target)


@contextmanager
def in_use(cache: NodeCache, name: str) -> Iterator[None]:
    """As by a pod that copies the files just now."""
    (entry,) = (path.parents[1] for path in cache.root.glob("*/files/source") if path.read_text() == name)
    with (cache.root / "locks" / entry.name).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield


@pytest.fixture
def small(tmp_path: Path) -> NodeCache:
    """Room for three, of which ``a`` was used last."""
    cache = NodeCache(tmp_path / "cache", limit=300, boot="first")
    for name in ("a", "b", "c", "a"):
        bring_named(cache, name, tmp_path)
    return cache


def test_the_entry_used_least_recently_makes_room(small: NodeCache, tmp_path: Path) -> None:
    assert bring_named(small, "d", tmp_path)
    assert entries(small) == ["a", "c", "d"]

    assert bring_named(small, "e", tmp_path)
    assert entries(small) == ["a", "d", "e"]


def test_an_entry_in_use_stays(small: NodeCache, tmp_path: Path) -> None:
    with in_use(small, "b"):
        assert bring_named(small, "d", tmp_path)

    assert entries(small) == ["a", "b", "d"]


def test_where_all_are_in_use_the_model_is_downloaded_without_the_cache(
    small: NodeCache, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with in_use(small, "a"), in_use(small, "b"), in_use(small, "c"):
        assert not bring_named(small, "d", tmp_path)

    assert entries(small) == ["a", "b", "c"]
    assert warnings(caplog) == [
        f"the node's cache {small.root} cannot be used (all of its 300 B are in use); downloading without it"
    ]


def test_a_download_that_was_given_up_makes_room_too(small: NodeCache, tmp_path: Path) -> None:
    with pytest.raises(CopyError):
        small.provide(
            "given up", [SourceFile(Path("w"), 100, version="1")], failing(CopyError("gone")), target=tmp_path / "pod"
        )
    for name in ("d", "e", "f"):
        bring_named(small, name, tmp_path)

    assert entries(small) == ["d", "e", "f"]
    assert len(list(small.root.iterdir())) == 4  # and the locks


def test_what_was_unpacked_counts_as_it_is(small: NodeCache, tmp_path: Path) -> None:
    listing = [SourceFile(Path("m.zip"), 10, version="1")]
    unpacked = {"source": b"unpacked", "w": bytes(242)}

    assert small.provide("unpacked", listing, lambda work: write_files(work / "new", unpacked), target=tmp_path / "pod")

    assert entries(small) == ["unpacked"]


def test_a_full_disk_counts_as_a_full_cache(small: NodeCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = iter([50, 100])
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": next(free, 100)}))
    roomy = replace(small, limit=1000)

    assert bring_named(roomy, "d", tmp_path)

    assert entries(small) == ["a", "c", "d"]


# --- out of the way ----------------------------------------------------------------------------------


def failing(error: BaseException) -> Callable[[Path], Path]:
    def fill(work: Path) -> Path:
        raise error

    return fill


def cannot(code: int) -> Callable[..., None]:
    def fail(*arguments: object, **options: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


def test_a_source_without_versions_is_not_kept(
    cache: NodeCache, fill: Filler, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    unversioned = (*LISTING[:1], replace(LISTING[1], version=""))

    assert not cache.provide(SOURCE, unversioned, fill, target=tmp_path / "models")

    assert (fill.times, cache.root.exists()) == (0, False)
    assert caplog.messages == ["not kept in the node's cache: the source reports no version of model-store/bert.mar"]


def test_a_model_that_is_larger_than_the_cache_is_not_kept(
    cache: NodeCache, fill: Filler, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert not replace(cache, limit=1024).provide(SOURCE, LISTING, fill, target=tmp_path / "models")

    assert caplog.messages == ["not kept in the node's cache: it needs 256.0 KiB of 1.0 KiB"]


def test_a_folder_that_cannot_be_written_is_told_and_does_without(
    fill: Filler, open_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (open_path / "cache").mkdir(mode=0o755)
    cache = NodeCache(open_path / "cache", limit=10 * SIZE, boot="first")

    with ordinary_user():
        assert not cache.provide(SOURCE, LISTING, fill, target=open_path / "models")

    assert warnings(caplog) == [
        f"the node's cache {cache.root} cannot be used (Permission denied); downloading without it"
    ]


def test_a_disk_that_fills_up_during_the_download_is_told_and_does_without(
    cache: NodeCache, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    full = failing(OSError(errno.ENOSPC, "No space left on device"))

    assert not cache.provide(SOURCE, LISTING, full, target=tmp_path / "models")

    assert warnings(caplog) == [
        f"the node's cache {cache.root} cannot be used (No space left on device); downloading without it"
    ]


def test_a_pods_volume_that_fills_up_is_left_empty(
    cache: NodeCache, fill: Filler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", cannot(errno.ENOSPC))

    assert not cache.provide(SOURCE, LISTING, fill, target=tmp_path / "models")

    assert not (tmp_path / "models").exists()


def test_what_is_wrong_with_the_source_is_no_matter_of_the_cache(cache: NodeCache, tmp_path: Path) -> None:
    with pytest.raises(CopyError, match="gone"):
        cache.provide(SOURCE, LISTING, failing(CopyError("gone")), target=tmp_path / "models")
