"""How far one goes through the code to follow a reconcile (`python -m tests.walk`): more needs a reason."""

from __future__ import annotations

import pytest

from tests.walk import SERVICES, walk


@pytest.mark.parametrize(
    ("service", "functions", "modules", "stays"),
    [("a predictor", 249, 40, 30), ("a predictor and a transformer", 260, 41, 35)],
)
async def test_a_reconcile_is_followed_in_so_many_steps(service: str, functions: int, modules: int, stays: int) -> None:
    walked = await walk(SERVICES[service])

    assert len(walked.functions) <= functions
    assert len(walked.modules) <= modules
    assert len(walked.stays("resolve")) <= stays
