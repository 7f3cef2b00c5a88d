"""docs/torchserve-settings.md says what the servers do, and each row has a test."""

from __future__ import annotations

import pytest

from tests.conformance.settings_table import HONOURED, PAGE, every, is_honoured_by_mar, paths_of, render
from tests.support.runtimes import ROOT

SETTINGS = list(every())


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run: python -m tests.conformance"


def test_every_setting_has_a_test() -> None:
    assert [setting.name for place, setting in SETTINGS if not paths_of(place, setting)] == []


def test_what_is_honoured_without_torchserve_has_a_test_of_its_own() -> None:
    assert [
        setting.name for _, setting in SETTINGS if is_honoured_by_mar(setting) and setting.name not in HONOURED
    ] == []


@pytest.mark.parametrize("test", sorted({test for place, setting in SETTINGS for test in paths_of(place, setting)}))
def test_the_test_that_a_row_names_is_there(test: str) -> None:
    file, _, name = test.partition("::")

    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")
