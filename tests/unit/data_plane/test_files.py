"""How many files a process may open, and how many of them are for connections."""

from __future__ import annotations

import subprocess
import sys

import pytest

from data_plane.limits import FILE_RESERVE, MAX_OPEN_FILES
from data_plane.model_server.files import connections_within

PROGRAM = """
import resource, sys
from data_plane.model_server.files import raise_limit

resource.setrlimit(resource.RLIMIT_NOFILE, tuple(map(int, sys.argv[1:])))
print(raise_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("files", "wanted", "connections"),
    [
        (MAX_OPEN_FILES, 4096, 4096),
        (1024, 4096, (1024 - FILE_RESERVE) // 2),
        (1024, 10, 10),
        (64, 4096, 16),
        (1, 4096, 1),
    ],
)
def test_connections_leave_files_for_others(files: int, wanted: int, connections: int) -> None:
    assert connections_within(files, wanted) == connections


@pytest.mark.process
@pytest.mark.parametrize(("soft", "hard"), [(100, 500), (500, 500)])
def test_the_soft_limit_is_raised_as_far_as_the_hard_one_goes(soft: int, hard: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(soft), str(hard)],
        env={"PYTHONPATH": ":".join(sys.path)}, check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.split() == ["500", "500", "500"]
