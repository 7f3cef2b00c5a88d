"""Sets of packages are filled once, found again, and evicted when they were not used for longest."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from data_plane.model_server.errors import ModelFailed
from tests.support.cache_pods import write_files
from tests.support.wheels import make_project, make_wheel
from torchserve_compat.packages import cache as cache_module
from torchserve_compat.packages.cache import PackageCache, size_of
from torchserve_compat.packages.installation import Installer

FIRST, SECOND, THIRD = ("1" * 64, "2" * 64, "3" * 64)
SIZE = 100 << 10


def writing(size: int = SIZE) -> Callable[[Path], Awaitable[None]]:
    async def fill(target: Path) -> None:
        await asyncio.to_thread(write_files, target, {"module.py": os.urandom(size)})

    return fill


async def refuse(_: Path) -> None:
    raise AssertionError("it is there already")


def sets_in(cache: PackageCache) -> set[str]:
    return {path.name for path in cache.root.iterdir() if path.is_dir() and not path.suffix}


@pytest.fixture
def cache(tmp_path: Path) -> PackageCache:
    made = PackageCache(tmp_path / "cache", limit=2 * SIZE + SIZE // 2)
    made.prepare()
    return made


@pytest.fixture
def nothing_in_use(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """End the uses so far, as the end of a server does."""
    used: list[int] = []
    monkeypatch.setattr(cache_module, "_in_use", used)

    def end() -> None:
        while used:
            os.close(used.pop())

    return end


async def test_a_set_is_filled_once(cache: PackageCache) -> None:
    filled = await cache.provide(FIRST, writing())

    assert await cache.provide(FIRST, refuse) == filled == cache.root / FIRST


async def test_a_set_that_fails_is_tried_again(cache: PackageCache) -> None:
    with pytest.raises(AssertionError):
        await cache.provide(FIRST, refuse)

    assert (await cache.provide(FIRST, writing()) / "module.py").stat().st_size == SIZE


async def test_a_server_waits_for_the_one_that_fills_a_set(cache: PackageCache) -> None:
    lock = os.open(cache.root / f"{FIRST}.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    waiting = asyncio.create_task(cache.provide(FIRST, refuse))
    await asyncio.sleep(0)

    (cache.root / FIRST).mkdir()
    os.close(lock)

    assert await waiting == cache.root / FIRST


async def test_what_was_not_used_for_longest_is_evicted(
    cache: PackageCache, nothing_in_use: Callable[[], None]
) -> None:
    for key in (FIRST, SECOND):
        await cache.provide(key, writing())
        os.utime(cache.root / f"{key}.lock", (0, 0))
    await cache.provide(FIRST, refuse)
    nothing_in_use()
    await cache.provide(THIRD, writing())

    assert cache.is_full()
    cache.evict()
    assert sets_in(cache) == {FIRST, THIRD}


async def test_what_a_killed_server_has_left_is_removed_as_well(
    cache: PackageCache, nothing_in_use: Callable[[], None]
) -> None:
    left = cache.root / f"{FIRST}.1"
    (cache.root / f"{FIRST}.lock").touch()
    for folder in (left, cache.root / f"{SECOND}.1"):
        await writing(3 * SIZE)(folder)

    await cache.provide(SECOND, writing())
    cache.evict()

    assert {path.name for path in cache.root.iterdir()} == {SECOND, f"{FIRST}.lock", f"{SECOND}.lock"}


def test_a_file_that_another_server_has_just_removed_takes_no_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").write_bytes(bytes(4096))
    os.link(tmp_path / "here", tmp_path / "linked")
    alone = size_of(tmp_path)
    monkeypatch.setattr(os, "walk", lambda _: iter([(str(tmp_path), [], ["here", "linked", "gone"])]))

    assert size_of(tmp_path) == alone == (tmp_path / "here").stat().st_blocks * 512


async def test_what_is_in_use_is_not_evicted(cache: PackageCache) -> None:
    for key in (FIRST, SECOND, THIRD):
        await cache.provide(key, writing())

    cache.evict()

    assert sets_in(cache) == {FIRST, SECOND, THIRD}


@pytest.mark.process
async def test_sets_make_room_for_another(
    tmp_path: Path, nothing_in_use: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    installer = Installer(PackageCache(tmp_path / "cache", limit=1))
    found = []
    for name in ("one", "two"):
        make_wheel(tmp_path, name, name)
        (tmp_path / "requirements.txt").write_text(name)
        found.append(await installer.install(tmp_path / "requirements.txt", tmp_path / "work", model="m"))
        nothing_in_use()

    assert [path.exists() for path in found if path] == [False, True]


@pytest.mark.process
async def test_archives_that_require_the_same_share_a_set(tmp_path: Path) -> None:
    make_wheel(tmp_path, "words", "found")
    installer, file = Installer(PackageCache(tmp_path / "cache")), tmp_path / "requirements.txt"
    file.write_text("--no-index\n--find-links .\nwords")

    found = [await installer.install(file, tmp_path / work, model=work) for work in ("one", "two")]

    assert found[0] == found[1]
    assert sets_in(PackageCache(tmp_path / "cache")) - {"uv"} == {found[0].name if found[0] else None}


@pytest.mark.process
@pytest.mark.parametrize(
    "line", [f"words==1 --hash=sha256:{64 * '0'}", "-r more.txt"], ids=["in it", "in another file"]
)
async def test_a_digest_in_a_requirements_file_holds_for_what_others_have_installed(tmp_path: Path, line: str) -> None:
    make_wheel(tmp_path, "words", "found")
    (tmp_path / "more.txt").write_text(f"words==1 --hash=sha256:{64 * '0'}")
    installer, file = Installer(PackageCache(tmp_path / "cache")), tmp_path / "requirements.txt"
    file.write_text("--no-index\n--find-links .\nwords")
    await installer.install(file, tmp_path / "one", model="one")

    file.write_text(f"--no-index\n--find-links .\n{line}")
    with pytest.raises(ModelFailed, match="Hash mismatch"):
        await installer.install(file, tmp_path / "two", model="two")


@pytest.mark.process
async def test_what_is_in_a_folder_of_an_archive_is_its_own(tmp_path: Path) -> None:
    """Both are unpacked at one path, with the times that archives have."""
    installer, folder = Installer(PackageCache(tmp_path / "cache")), tmp_path / "archive"
    for word in ("one", "two"):
        shutil.rmtree(folder, ignore_errors=True)
        make_project(folder / "mine", word)
        (folder / "requirements.txt").write_text("--no-index\n./mine")
        for path in folder.rglob("*"):
            os.utime(path, (315532800, 315532800))

        installed = await installer.install(folder / "requirements.txt", tmp_path / "work", model="m")

        assert installed == tmp_path / "work/packages"
        assert (installed / "mine.py").read_text() == f"WORD = {word!r}\n"
