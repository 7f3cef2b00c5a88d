"""`python -m tests.conformance` writes docs/conformance.md."""

from __future__ import annotations

from tests.conformance.table import PAGE, render

if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
