"""docs/transformers.md: its commands in order, in one shell, in a folder that looks like a checkout."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.build_cache import sample
from tests.support.ports import free_port
from tests.support.runtimes import ROOT

PAGE = (ROOT / "docs/transformers.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def make_checkout(folder: Path) -> None:
    """What the page's commands find beside the folder that they make."""
    for name in ("examples", "tests", "pyproject.toml", ".cluster"):
        (folder / name).symlink_to(ROOT / name)
    shutil.copytree(sample("mnist"), folder / "build/mnist")


def walk(folder: Path, commands: str, timeout_s: float, **environment: str) -> str:
    """Run the page's commands on ports that are free; what they said. AssertionError where one fails."""
    with (folder / "log").open("wb") as log:
        shell = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", _moved(commands, folder)], cwd=folder, stdout=log, stderr=log,
            start_new_session=True, env={**_environment(folder), **environment},
        )  # fmt: skip
        try:
            code = shell.wait(timeout=timeout_s)
        finally:
            os.killpg(shell.pid, signal.SIGKILL)
    said = (folder / "log").read_text()
    assert code == 0, said
    return said


def _environment(folder: Path) -> Mapping[str, str]:
    """This machine's, with the programs and modules of this checkout."""
    assert shutil.which("curl"), "curl is not installed"
    sources = (ROOT, ROOT / "runtime-images/mar/src")
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(map(str, sources)),
        "TERMINATION_LOG": str(folder / "ended"),
    }


def _moved(commands: str, folder: Path) -> str:
    """To ports and a folder that nobody else uses."""
    ports = {taken: str(free_port()) for taken in ("8085", "8090", "8095")}
    for taken, own in {**ports, "/tmp/mnist": str(folder / "work")}.items():
        assert taken in commands
        commands = commands.replace(taken, own)
    return commands
