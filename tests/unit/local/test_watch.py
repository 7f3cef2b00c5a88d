"""Which files a pod was made from."""

from __future__ import annotations

import asyncio
from pathlib import Path

from isvc.run.container import Process
from isvc.run.pod import PodPlan
from isvc.run.watch import FileWatcher, Root, roots_of
from tests.support.local_services import Silent


def pod(folder: Path, *commands: tuple[str, ...], init: tuple[str, ...] = (), **links: Path) -> PodPlan:
    def process(name: str, command: tuple[str, ...]) -> Process:
        return Process(name, command, {}, str(folder), folder / "log", name)

    return PodPlan(
        folder=folder / "own",
        folders=(),
        files={},
        links={folder / "own/.claims" / name: target for name, target in links.items()},
        ports={},
        init=(process("storage-initializer", init),) if init else (),
        servers=tuple(process("server", command) for command in commands),
    )


def test_the_part_of_a_claim_that_is_copied_is_watched_or_all_of_one_that_is_mounted(tmp_path: Path) -> None:
    claim = tmp_path / "claim"

    part = roots_of(pod(tmp_path, init=("python", "pvc://models/bert", "/own"), models=claim))
    assert list(part) == [Root(claim / "bert")]
    assert list(roots_of(pod(tmp_path, models=claim))) == [Root(claim)]


def test_a_program_is_watched_with_the_modules_beside_it(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    files = ("model.py", "text.py", "data.bin", "package/__init__.py", "package/part.py", "settings.yaml")
    for name in files:
        (tmp_path / name).touch()

    def names(*command: str) -> list[str]:
        roots = list(roots_of(pod(tmp_path, command)))
        return [name for name in files if any(root.name(tmp_path / name) for root in roots)]

    assert names("python", "model.py", "--port=1") == ["model.py", "text.py"]
    assert names("python", "-m", "model") == ["model.py", "text.py"]
    assert names("python", "-m", "package") == ["package/__init__.py", "package/part.py"]
    assert names("python", "-m", "json.tool", "settings.yaml", "own/copied") == ["settings.yaml"]


def test_a_folder_is_watched_with_all_that_is_in_it_and_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "v1").mkdir()
    (tmp_path / "current").symlink_to("v1")
    root = Root(tmp_path / "current")

    assert set(root.folders()) == {(tmp_path / "v1", True), (tmp_path, False)}
    assert root.name(tmp_path / "v1/store/a.mar") == tmp_path / "current/store/a.mar"
    assert root.name(tmp_path / "current") == tmp_path / "current"  # it leads elsewhere now
    for made in ("__pycache__/a.pyc", ".git/index", ".handler.py.swp", "handler.py~"):
        assert root.name(tmp_path / "v1" / made) is None
    assert root.name(tmp_path / "v2") is None
    assert set(Root(tmp_path / "absent.yaml").folders()) == {(tmp_path, False)}


async def test_what_a_link_leads_to_is_watched_also_after_it_leads_elsewhere(tmp_path: Path) -> None:
    for name in ("v1", "v2"):
        (tmp_path / name).mkdir()
    claim = tmp_path / "claim"
    claim.mkdir()
    (claim / "current").symlink_to(tmp_path / "v1")
    (claim / "itself").symlink_to(claim)
    changed: list[Path] = []

    async def change() -> None:
        async with asyncio.TaskGroup() as tasks:
            watcher = FileWatcher(tasks, Silent())
            watcher.follow([Root(claim)])
            await asyncio.sleep(0)
            (tmp_path / "v1/weights").touch()
            changed.append(await watcher.changes.get())
            (claim / "next").symlink_to(tmp_path / "v2")
            (claim / "next").replace(claim / "current")
            while changed[-1] != claim / "current":
                changed.append(await watcher.changes.get())
            watcher.follow([Root(claim)], again=True)
            await asyncio.sleep(0)
            (tmp_path / "v2/other").touch()
            while changed[-1] != claim / "current/other":
                changed.append(await watcher.changes.get())
            raise asyncio.CancelledError

    async with asyncio.timeout(120):
        await asyncio.gather(change(), return_exceptions=True)

    assert (changed[0], changed[-1]) == (claim / "current/weights", claim / "current/other")
