"""`python -m tests.conformance` writes docs/conformance.md and docs/sdk-conformance.md."""

from __future__ import annotations

from tests.conformance import sdk_table, table

if __name__ == "__main__":
    for page in (table, sdk_table):
        page.PAGE.write_text(page.render(), encoding="utf-8")
