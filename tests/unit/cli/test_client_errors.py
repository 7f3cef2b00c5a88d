"""What servers of aiohttp log of the errors of their clients."""

from __future__ import annotations

import logging

import aiohttp
import pytest

from isvc.client_errors import WithoutClientErrors

GONE = aiohttp.ClientConnectionResetError("Cannot write to closing transport")
OURS = ValueError("a bug")


@pytest.mark.parametrize(
    ("error", "logged"),
    [
        (GONE, False),
        (OURS, True),
        (ExceptionGroup("", [GONE]), False),
        (ExceptionGroup("", [GONE, OURS]), True),
    ],
)
def test_a_client_that_hangs_up_is_not_logged_from_one_task_or_several(error: Exception, logged: bool) -> None:
    info = (type(error), error, None)
    record = logging.LogRecord("x", logging.ERROR, "", 0, "Error handling request", None, info)

    assert WithoutClientErrors().filter(record) is logged
