"""In a folder that every user may write to, somebody else's file is neither followed, nor truncated, nor run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.model_folder import write_volume
from tests.support.ports import free_port
from tests.support.runtimes import MODULES, OURS

NAMES = {"mar": "mar", "adapter": "torchserve"}


def put_a_link(work: Path, elsewhere: Path) -> None:
    work.symlink_to(elsewhere)


def put_a_folder_for_all(work: Path, _: Path) -> None:
    work.mkdir()
    work.chmod(0o777)


def put_a_link_for_the_lock(work: Path, elsewhere: Path) -> None:
    work.mkdir(mode=0o700)
    (work / "lock").symlink_to(elsewhere / "file")


@pytest.mark.parametrize(
    ("put", "reason"),
    [
        (put_a_link, "is a link, which anybody may have put there"),
        (put_a_folder_for_all, "(mode 0777), and this server runs what is in it"),
        (put_a_link_for_the_lock, "cannot be written to: Too many levels of symbolic links"),
    ],
)
@pytest.mark.parametrize("kind", OURS)
def test_what_was_put_there_first_ends_the_server(
    tmp_path: Path, kind: str, put: Callable[[Path, Path], None], reason: str
) -> None:
    models, shared, elsewhere = write_volume(tmp_path / "models"), tmp_path / "tmp", tmp_path / "elsewhere"
    shared.mkdir()
    elsewhere.mkdir()
    (elsewhere / "file").write_text("precious")
    put(shared / f"{NAMES[kind]}-{os.geteuid()}", elsewhere)

    ended = subprocess.run(
        [sys.executable, "-m", MODULES[kind], "--model-dir", str(models), "--host", "127.0.0.1",
         "--http-port", str(free_port()), "--grpc-port", "0", "--termination-log", str(tmp_path / "reason")],
        env={**os.environ, "TMPDIR": str(shared)}, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (ended.returncode, reason in (tmp_path / "reason").read_text()) == (1, True), ended.stderr
    assert {file.name: file.read_text() for file in elsewhere.iterdir()} == {"file": "precious"}
