"""Texts from outside are bounded, and nothing in them acts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isvc_operator.text import one_line, shortened, visible

ANY_TEXT = st.text(st.characters(exclude_categories=()))  # lone surrogates, too: a JSON text may hold them


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, mit Umlaut: ä", "plain, mit Umlaut: ä"),
        ("red \x1b[31m", "red \\x1b[31m"),
        ("one\r\nERROR two", "one\\r\\nERROR two"),
        ("tab\there", "tab\\there"),
        ("nul\0", "nul\\x00"),
        ("c1 \x9b31m", "c1 \\x9b31m"),
        ("abc\u202egnp.exe", "abc\\u202egnp.exe"),
        ("a\u2028b\u2029c\x85d\x0be", "a\\u2028b\\u2029c\\x85d\\x0be"),
        ("\u200bhidden\ufeff", "\\u200bhidden\\ufeff"),
        ("\ud800", "\\ud800"),
        ("soft\xadhyphen, tag \U000e0041", "soft\\xadhyphen, tag \\U000e0041"),
    ],
)
def test_control_characters_become_visible(text: str, shown: str) -> None:
    assert one_line(text) == shown


def test_line_breaks_and_tabs_stay_where_lines_are_wanted() -> None:
    assert visible("a\n\tb\x1b") == "a\n\tb\\x1b"


@given(ANY_TEXT, st.integers(3, 300))
def test_any_text_is_one_line_within_its_bound(text: str, limit: int) -> None:
    line = one_line(text, limit)

    assert len(line.encode()) <= limit
    assert line.splitlines() in ([], [line])
    assert line.isprintable()


@pytest.mark.parametrize(("text", "cut"), [("12345", "12345"), ("123456", "12…"), ("äää", "ä…"), ("", "")])
def test_a_text_is_cut_at_its_bound(text: str, cut: str) -> None:
    assert shortened(text, 5) == cut
