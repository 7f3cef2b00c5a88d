"""The quick run starts no process and imports no torch, whatever its tests would do."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import kept as keeping
from tests.support.kept import kept
from tests.support.runtimes import ROOT

PROCESSES = """
import multiprocessing, os, subprocess, sys
import pytest

def test_that_starts_a_fork_server():
    process = multiprocessing.get_context("forkserver").Process(target=print)
    process.start()
    process.join()

def test_that_starts_a_shell():
    os.system("true")

def test_that_starts_a_process():
    subprocess.run([sys.executable, "-c", ""], check=True)

@pytest.mark.process
def test_that_says_so():
    subprocess.run([sys.executable, "-c", ""], check=True)

def test_that_asks_git():
    subprocess.run(["git", "--version"], check=True)
"""
FILES = {
    "test_torch.py": "import torch\n\ndef test_of_tensors():\n    assert torch.zeros(1)\n",
    "test_import.py": "def test_that_imports_torch():\n    import torch\n",
    "test_processes.py": PROCESSES,
}
STARTING = ["test_that_starts_a_fork_server", "test_that_starts_a_process", "test_that_starts_a_shell"]
OUTCOME = re.compile(r"^(PASSED|FAILED) .*::(\w+)", re.MULTILINE)


@pytest.mark.process
def test_what_is_slow_is_left_out_where_it_says_so_and_fails_where_it_does_not(tmp_path: Path) -> None:
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)

    ran = run(tmp_path, "--quick")

    assert sorted(OUTCOME.findall(ran)) == [
        ("FAILED", "test_that_imports_torch"),
        *(("FAILED", name) for name in STARTING),
        ("PASSED", "test_that_asks_git"),
    ], ran
    assert "test_torch.py imports torch" in ran


def run(folder: Path, *options: str) -> str:
    """What pytest prints of the tests in the folder."""
    suite = ("-p", "tests.conftest", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"), "-rA")
    command = [sys.executable, "-m", "pytest", *suite, f"--confcutdir={folder}", *options, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False).stdout


@pytest.mark.process
def test_a_test_of_the_quick_run_starts_no_process_in_any_run_unless_it_says_so(tmp_path: Path) -> None:
    for name in ("tests/unit/test_quick_ones.py", "tests/integration/test_others.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(PROCESSES)

    ran = run(tmp_path, f"--rootdir={tmp_path}")

    failed = re.findall(r"^FAILED \S*(test_\w+\.py::\w+)", ran, re.MULTILINE)
    assert sorted(failed) == [f"test_quick_ones.py::{name}" for name in STARTING], ran
    assert "7 passed" in ran


def test_what_is_kept_is_made_anew_when_its_sources_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "FOLDER", tmp_path / "kept")
    source, made = tmp_path / "source", list[Path]()

    def make(folder: Path) -> None:
        (folder / "content").write_text(source.read_text())
        made.append(folder)

    def content(*sources: str) -> str:
        return (kept("a", make, source, *sources) / "content").read_text()

    source.write_text("first")
    assert [content(), content()] == ["first"] * 2
    source.write_text("second")
    assert [content(), content("an option")] == ["second"] * 2
    assert len(made) == 3


def test_what_could_not_be_made_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "FOLDER", tmp_path / "kept")

    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        kept("a", fail)

    assert [path.name for path in kept("a", lambda folder: (folder / "whole").touch()).glob("[!.]*")] == ["whole"]
