"""What holds for every test run. pytest takes command-line options from here only, whichever folder is asked for."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

# The same examples in every run, and none of them judged by the time it takes.
settings.register_profile(
    "repeatable", max_examples=50, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-goldens",
        action="store_true",
        help="write what is rendered now into tests/golden/cases; read the difference before it is committed",
    )
