"""docs/commands says what the commands' help says."""

from __future__ import annotations

import pytest

from tests.support.command_pages import main


def test_the_pages_are_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0, capsys.readouterr().err
