"""What is said of settings, and without what."""

from __future__ import annotations

import sys

import pytest

from storage_initializer.settings import of_archive


def test_an_archive_without_settings_needs_no_reader_of_yaml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)

    assert of_archive(b"") == {}
