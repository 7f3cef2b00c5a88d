"""docs/limits.md lists every bound in the code, and each has a test."""

from __future__ import annotations

from tests.hostile.limits.page import ALL, PAGE, constants, render
from tests.support.named_tests import missing


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run: python -m tests.hostile"


def test_every_bound_in_the_code_has_a_row() -> None:
    assert sorted(set(constants()) - {bound.constant for bound in ALL}) == []


def test_the_tests_that_the_rows_name_are_there() -> None:
    assert missing(bound.test for bound in ALL) == []
