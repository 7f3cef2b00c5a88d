"""What holds for all tests of packages."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def pip_without_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's own indexes and folders of wheels are not asked: tests have theirs."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
