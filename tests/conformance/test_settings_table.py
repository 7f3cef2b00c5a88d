"""docs/torchserve-settings.md says what the servers do, and each row has a test."""

from __future__ import annotations

from tests.conformance.settings_table import HONOURED, PAGE, every, is_honoured_by_mar, paths_of, render
from tests.support.named_tests import missing

SETTINGS = list(every())


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run: python -m tests.conformance"


def test_every_setting_has_a_test() -> None:
    assert [setting.name for place, setting in SETTINGS if not paths_of(place, setting)] == []


def test_what_is_honoured_without_torchserve_has_a_test_of_its_own() -> None:
    assert [
        setting.name for _, setting in SETTINGS if is_honoured_by_mar(setting) and setting.name not in HONOURED
    ] == []


def test_the_tests_that_the_rows_name_are_there() -> None:
    assert missing(test for place, setting in SETTINGS for test in paths_of(place, setting)) == []
