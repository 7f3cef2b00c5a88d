"""docs/limits.md lists every bound in the code, and each has a test."""

from __future__ import annotations

import pytest

from tests.hostile.limits.page import ALL, PAGE, constants, render
from tests.support.runtimes import ROOT


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run: python -m tests.hostile"


def test_every_bound_in_the_code_has_a_row() -> None:
    assert sorted(set(constants()) - {bound.constant for bound in ALL}) == []


@pytest.mark.parametrize("test", sorted({bound.test for bound in ALL}))
def test_the_test_that_a_row_names_is_there(test: str) -> None:
    file, _, name = test.partition("::")

    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")
