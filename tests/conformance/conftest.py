"""Each kind of server is asked everything once, one server at a time; tests compare what was recorded.

TorchServe's answers never change: they are read from `recorded/`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.conformance import archives, recorder
from tests.conformance.behaviours import leave_out_what_torchserve_has_passed
from tests.conformance.recording import Recording
from tests.conformance.recording import recorded as torchserves
from tests.support.runtimes import TORCHSERVE

Record = Callable[[str, str], Recording]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    leave_out_what_torchserve_has_passed(config, items)


@pytest.fixture(scope="session")
def directories() -> Mapping[str, Path]:
    """The suite's model directories, by name."""
    return archives.directories()


@pytest.fixture(scope="session")
def recorded(directories: Mapping[str, Path]) -> Record:
    """The recording of one kind of server over one model directory; a server that fails is started once only."""

    @functools.cache
    def attempt(kind: str, directory: str) -> Recording | BaseException:
        try:
            return recorder.record(kind, directory, directories[directory])
        except (AssertionError, OSError) as error:
            return error

    def record(kind: str, directory: str) -> Recording:
        if kind == TORCHSERVE:
            return torchserves(directory)
        if isinstance(attempted := attempt(kind, directory), BaseException):
            raise attempted
        return attempted

    return record
