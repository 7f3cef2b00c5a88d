"""Our SDK beside KServe's, case by case; docs/sdk-conformance.md says how it came out."""

from __future__ import annotations

import pytest

from tests.conformance.sdk_table import PAGE, Comparison, compare, render


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return compare()


def test_what_differs_has_its_reason_and_what_is_offered_its_case(comparison: Comparison) -> None:
    assert comparison.unexplained() == []


def test_no_reason_is_given_for_what_is_the_same(comparison: Comparison) -> None:
    assert comparison.needless() == []


def test_the_page_is_up_to_date(comparison: Comparison) -> None:
    assert PAGE.read_text(encoding="utf-8") == render(comparison), "run: python -m tests.conformance"
