"""Which files a pod was made from, and whether they have changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from isvc.run import watch
from isvc.run.container import Process
from isvc.run.pod import Pod
from isvc.run.watch import Root, files_of, roots_of, snapshot, snapshots


def pod(folder: Path, *commands: tuple[str, ...], init: tuple[str, ...] = (), **links: Path) -> Pod:
    def process(name: str, command: tuple[str, ...]) -> Process:
        return Process(name, command, {}, str(folder), folder / "log", name)

    return Pod(
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
    for name in ("model.py", "text.py", "data.bin", "package/__init__.py", "package/part.py", "settings.yaml"):
        (tmp_path / name).touch()

    def names(*command: str) -> list[str]:
        return sorted(
            str(path.relative_to(tmp_path)) for root in roots_of(pod(tmp_path, command)) for path in files_of(root)
        )

    assert names("python", "model.py", "--port=1") == ["model.py", "text.py"]
    assert names("python", "-m", "package") == ["package/__init__.py", "package/part.py"]
    assert names("python", "-m", "json.tool", "settings.yaml", "own/copied") == ["settings.yaml"]


def test_a_change_of_any_file_in_a_folder_is_one(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    archive = tmp_path / "store/a.mar"
    archive.write_text("one")
    first = snapshot([tmp_path])

    assert snapshot([tmp_path]) == first
    archive.with_suffix(".new").write_text("two")
    archive.with_suffix(".new").replace(archive)
    assert snapshot([tmp_path]) != first
    archive.unlink()
    assert snapshot([tmp_path, tmp_path / "absent"]) == {}


def test_files_beyond_the_limit_are_not_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "WATCHED_FILES", 3)
    for number in range(5):
        (tmp_path / str(number)).touch()

    assert len(snapshot([tmp_path])) == 3
    assert sum(map(len, snapshots([Root(tmp_path), Root(tmp_path, "*")]).values())) == 3


def test_a_link_to_a_folder_that_leads_elsewhere_is_a_change_and_a_circle_has_an_end(tmp_path: Path) -> None:
    for name in ("v1", "v2"):
        (tmp_path / "versions" / name).mkdir(parents=True)
        (tmp_path / "versions" / name / "weights").write_text("the same")
    claim = tmp_path / "claim"
    claim.mkdir()
    (claim / "current").symlink_to(tmp_path / "versions/v1")
    (claim / "itself").symlink_to(claim)
    first = snapshot([claim])

    assert snapshot([claim]) == first
    (claim / "next").symlink_to(tmp_path / "versions/v2")
    (claim / "next").replace(claim / "current")
    assert snapshot([claim]) != first
    second = snapshot([claim])
    (tmp_path / "versions/v2/weights").write_text("others")
    assert snapshot([claim]) != second
