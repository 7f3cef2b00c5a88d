"""docs/sdk-conformance.md says what there is."""

from __future__ import annotations

from tests.conformance.sdk_table import FLAGS, PAGE, REASONS, flags, lines, render


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run: python -m tests.conformance"


def test_no_name_differs_without_a_reason() -> None:
    assert [line for line in (*lines(), *flags()) if line.unexplained] == []


def test_no_reason_is_given_for_what_is_the_same() -> None:
    text = render()

    assert [reason for reason in (*REASONS.values(), *FLAGS.values()) if reason not in text] == []
