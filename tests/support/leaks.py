"""A test that leaves a file, a socket or a transport open is blamed itself, not the one that runs when it is collected.

What is left open warns when it is collected, and every warning is an error. It is collected at the end of each module,
as an error of its last test; with `--find-leaks` after each test, and the error says where it was made.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator

import pytest

_FRAMES = 25  # of the place where a thing was made


def add_option(parser: pytest.Parser) -> None:
    """`--find-leaks`, too slow for every run."""
    parser.addoption(
        "--find-leaks",
        action="store_true",
        help="look after each test, not after each module, for what was left open, and say where it was made",
    )


def begin(config: pytest.Config) -> None:
    """Before anything is imported."""
    if config.getoption("--find-leaks"):
        tracemalloc.start(_FRAMES)


def keep_what_is_imported() -> None:
    """Once the tests are collected: to look through all modules at each one's end takes half a second."""
    gc.collect()
    gc.freeze()


def end() -> None:
    """Extension modules complain at exit of what was not collected."""
    gc.unfreeze()


@pytest.fixture(autouse=True, scope="module")
def collected_after_the_module() -> Iterator[None]:
    """What is still there has been imported or belongs to the session: the next modules need not look through it."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def collected_after_the_test(pytestconfig: pytest.Config) -> Iterator[None]:
    yield
    if pytestconfig.getoption("--find-leaks"):
        gc.collect()
