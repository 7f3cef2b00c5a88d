"""The suite blames the test that leaves something open."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.runtimes import ROOT

LEAVES_A_TRANSPORT = """
import asyncio, socket

kept = []

async def leave():
    ours, theirs = socket.socketpair()
    kept.append(theirs)
    ours.setblocking(False)
    transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours)
    transport.itself = transport  # only the collector finds it

def test_that_leaves_it():
    asyncio.run(leave())

def test_of_the_same_file():
    pass
"""


@pytest.mark.process
@pytest.mark.parametrize(
    ("flags", "blamed", "says_where"),
    [((), "test_of_the_same_file", False), (("--find-leaks",), "test_that_leaves_it", True)],
)
def test_what_is_left_open_is_an_error_of_its_own_file(
    tmp_path: Path, flags: tuple[str, ...], blamed: str, says_where: bool
) -> None:
    (tmp_path / "test_first.py").write_text(LEAVES_A_TRANSPORT)
    (tmp_path / "test_second.py").write_text("def test_of_another_file():\n    pass\n")

    suite = ("-p", "tests.conftest", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"))
    command = [sys.executable, "-m", "pytest", *suite, f"--confcutdir={tmp_path}", *flags, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)

    assert re.findall(r"^ERROR .*::(\w+)", ran.stdout, re.MULTILINE) == [blamed]
    assert ("ours, theirs = socket.socketpair()" in ran.stdout) == says_where
