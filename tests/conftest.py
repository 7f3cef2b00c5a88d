"""Options of the whole test run. pytest takes them from here only, whichever folder is asked for."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-goldens",
        action="store_true",
        help="write what is rendered now into tests/golden/cases; read the difference before it is committed",
    )
