"""`python -m tests.conformance` writes docs/conformance.md, docs/sdk-conformance.md and
docs/torchserve-settings.md."""

from __future__ import annotations

from tests.conformance import sdk_table, settings_table, table

if __name__ == "__main__":
    for page in (table, settings_table):
        page.PAGE.write_text(page.render(), encoding="utf-8")
    sdk_table.PAGE.write_text(sdk_table.render(sdk_table.compare()), encoding="utf-8")
