"""Programs of others that tests run as they are."""

from __future__ import annotations

import subprocess

from tests.support.source_tree import ROOT


def program(name: str) -> str:
    """The path of a program that `tests/cluster/program` finds, builds or downloads."""
    found = subprocess.run(["bash", "tests/cluster/program", name], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert found.returncode == 0, f"{name} can be neither found nor downloaded; it says above why"
    return found.stdout.strip()
