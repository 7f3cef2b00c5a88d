"""docs/conformance.md says what is tested."""

from __future__ import annotations

from tests.conformance.cases import CASES
from tests.conformance.table import ELSEWHERE, PAGE, render
from tests.conformance.torchserve_grpc import CASES as GRPC_CASES
from tests.support.named_tests import missing


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run: python -m tests.conformance"


def test_every_case_has_a_row() -> None:
    page = render()

    assert [case.name for cases in CASES.values() for case in cases if f" and {case.name} |" not in page] == []


def test_every_difference_has_its_reason() -> None:
    cases = (case for cases in CASES.values() for case in cases)

    assert [one.feature for one in (*cases, *GRPC_CASES) if one.ours is not None and not one.why] == []


def test_what_is_tested_elsewhere_is_there() -> None:
    assert missing(ELSEWHERE) == []
