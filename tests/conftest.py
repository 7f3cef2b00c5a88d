"""What holds for every test run. pytest takes command-line options from here only, whichever folder is asked for."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support import import_path, leaks, quick
from tests.support.leaks import collected_after_the_module, collected_after_the_test
from tests.support.scheduling import ByServer

__all__ = ["collected_after_the_module", "collected_after_the_test"]  # fixtures of every test

# The same examples in every run, and none of them judged by the time it takes.
settings.register_profile(
    "repeatable", max_examples=50, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def root_log_level() -> Iterator[None]:
    """What a test configures of logging ends with it: the next one counts on what is logged by default."""
    level = logging.root.level
    yield
    logging.root.setLevel(level)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByServer:
    return ByServer(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What a test logs goes from process to process as UTF-8, which not every file name is."""
    report = yield
    report.sections = [(title, text.encode(errors="backslashreplace").decode()) for title, text in report.sections]
    return report


def pytest_configure(config: pytest.Config) -> None:
    leaks.begin(config)
    import_path.begin(config)
    quick.begin(config)


def pytest_collection_finish() -> None:
    leaks.keep_what_is_imported()


def pytest_unconfigure() -> None:
    leaks.end()


def pytest_addoption(parser: pytest.Parser) -> None:
    leaks.add_option(parser)
    import_path.add_option(parser)
    parser.addoption(
        "--rewrite-goldens",
        action="store_true",
        help="write what is rendered and printed now into tests/golden; read the difference before it is committed",
    )
    parser.addoption(
        "--quick", action="store_true", help="only tests that start no process and import no torch; others are refused"
    )
    parser.addoption(
        "--torchserve",
        action="store_true",
        help="what TorchServe has passed when it was recorded is tested on the real one again",
    )
    parser.addoption(
        "--hostile-services",
        type=int,
        default=200,
        metavar="N",
        help="how many good services have to get ready beside those of tests/hostile/test_poison_services.py",
    )
    parser.addoption(
        "--hostile-minutes",
        type=float,
        default=None,
        metavar="N",
        help="how long each search in tests/hostile goes on; without it, some seconds",
    )
