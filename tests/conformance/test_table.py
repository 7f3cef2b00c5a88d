"""docs/conformance.md says what is tested."""

from __future__ import annotations

import pytest

from tests.conformance.table import ELSEWHERE, PAGE, render
from tests.support.runtimes import ROOT


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run: python -m tests.conformance"


@pytest.mark.parametrize("test", ELSEWHERE)
def test_what_is_tested_elsewhere_is_there(test: str) -> None:
    file, _, name = test.partition("::")

    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")
