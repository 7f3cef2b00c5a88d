"""`python -m tests.hostile` writes docs/limits.md."""

from __future__ import annotations

from tests.hostile.limits import page

if __name__ == "__main__":
    page.PAGE.write_text(page.render(), encoding="utf-8")
