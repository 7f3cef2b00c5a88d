"""TorchServe's recorded answers are those of what is asked now."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance import behaviours, key
from tests.conformance.recording import rounded_as


def test_the_recordings_are_of_these_archives_and_requests() -> None:
    assert key.kept() == key.current(), f"run: {behaviours.COMMAND}"


@pytest.mark.parametrize(
    ("code", "is_the_same"),
    [
        ("# A comment.\nfrom c import D\nassert D( 1 ) == 2\n", True),
        ("from a import B\nassert B(1) == 3\n", False),
        ("from a import B\nassert B(1) != 2\n", False),
    ],
)
def test_the_key_is_of_what_code_means(tmp_path: Path, code: str, is_the_same: bool) -> None:
    before, now = tmp_path / "before.py", tmp_path / "now.py"
    before.write_text("from a import B\nassert B(1) == 2\n")
    now.write_text(code)

    assert (key.meaning(now) == key.meaning(before)) == is_the_same


@pytest.mark.parametrize(
    ("recorded", "answered", "compared"),
    [
        (b"[0.12345678]", b"[0.12345679]", b"[0.12345678]"),
        (b"[0.5, 1.25e-05]", b"[0.5, 1.2500001e-05]", b"[0.5, 1.25e-05]"),
        (b"[0.123]", b"[0.124]", b"[0.124]"),
        (b"[0.5]", b"[0.50]", b"[0.50]"),
        (b"[0.5]", b"[0.5, 0.5]", b"[0.5, 0.5]"),
        (b"version 1", b"version 2", b"version 2"),
    ],
)
def test_only_the_rounding_of_fractions_may_differ(recorded: bytes, answered: bytes, compared: bytes) -> None:
    assert rounded_as(recorded, answered) == compared
