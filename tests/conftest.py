"""What holds for every test run. pytest takes command-line options from here only, whichever folder is asked for."""

from __future__ import annotations

import gc
import logging
import signal
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support.scheduling import ByServer

# What is started in the background of a script ignores Ctrl-C, and so would the processes that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in every run, and none of them judged by the time it takes.
settings.register_profile(
    "repeatable", max_examples=50, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
# Others in each run, for as long as a campaign takes (tests/hostile/README.md).
settings.register_profile(
    "campaign", max_examples=100_000, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-goldens",
        action="store_true",
        help="write what is rendered and printed now into tests/golden; read the difference before it is committed",
    )
    parser.addoption(
        "--torchserve",
        action="store_true",
        help="what TorchServe has passed when it was recorded is tested on the real one again",
    )


@pytest.fixture(autouse=True)
def log_levels() -> Iterator[None]:
    """What a test configures of logging ends with it: the next one counts on what is logged by default."""
    with _log_levels_kept():
        yield


@pytest.fixture(autouse=True, scope="module")
def log_levels_of_the_module() -> Iterator[None]:
    """What its fixtures configure ends with them."""
    with _log_levels_kept():
        yield


@contextmanager
def _log_levels_kept() -> Iterator[None]:
    levels = {name: getattr(logger, "level", logging.NOTSET) for name, logger in _loggers()}  # placeholders have none
    yield
    for name, logger in _loggers():
        if isinstance(logger, logging.Logger) and logger.level != levels.get(name, logger.level):
            logger.setLevel(levels[name])  # not always: it empties each logger's cache


def _loggers() -> list[tuple[str, object]]:
    return [("", logging.root), *logging.root.manager.loggerDict.items()]


@pytest.fixture(autouse=True, scope="module")
def collected_after_the_module() -> Iterator[None]:
    """A file or a socket that is left open warns when it is collected: here, as an error of the module's last test.

    What is left then has been imported or belongs to the session: the next modules need not look through it.
    """
    yield
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays: to look through it takes a sixth of the time, and half a second after each module."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_unconfigure() -> None:
    """Extension modules complain at exit of what was not collected."""
    gc.unfreeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByServer:
    return ByServer(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What a test logs goes from process to process as UTF-8, which not every file name is.

    A report parses the source of a test that has failed. Before Python 3.11.8 that ends the whole run ("AST constructor
    recursion depth mismatch", python/cpython#106905) if garbage is collected meanwhile, and its error's traceback, for
    which source is parsed as well, is formatted.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        report = yield
    finally:
        if collects:
            gc.enable()
    report.sections = [(title, text.encode(errors="backslashreplace").decode()) for title, text in report.sections]
    return report
