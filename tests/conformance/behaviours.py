"""Behaviours that take more than one answer to see: tests that TorchServe passes as well, when it is recorded."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conformance.key import BEHAVIOURS
from tests.conformance.recording import RECORDED
from tests.support.runtimes import OURS, ROOT, TORCHSERVE

FILE = RECORDED / "behaviours.txt"
COMMAND = "make recordings"
# TorchServe passes them with `--torchserve`; without it they are left out, as they have passed before.
EVERY_KIND = (pytest.param(TORCHSERVE, marks=pytest.mark.torchserve), *OURS)


def leave_out_what_torchserve_has_passed(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--torchserve"):
        return
    torchserves = [item for item in items if item.get_closest_marker("torchserve")]
    if unseen := {item.nodeid for item in torchserves} - {*_passed()}:
        raise pytest.UsageError(f"TorchServe has not been seen to pass {', '.join(sorted(unseen))}; run: {COMMAND}")
    config.hook.pytest_deselected(items=torchserves)
    items[:] = [item for item in items if not item.get_closest_marker("torchserve")]


def record() -> str:
    """The names of the tests that TorchServe has passed now; raises CalledProcessError where it fails one."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", "--torchserve", "-m", "torchserve"]
    ran = subprocess.run([*command, *BEHAVIOURS], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if ran.returncode:
        sys.stderr.write(ran.stdout)
    ran.check_returncode()
    passed = [line.removeprefix("PASSED ") for line in ran.stdout.splitlines() if line.startswith("PASSED ")]
    return "".join(f"{name}\n" for name in sorted(passed))


def _passed() -> list[str]:
    return FILE.read_text(encoding="utf-8").splitlines() if FILE.is_file() else []
