"""`--quick`: the tests that start no process and import no torch, for every few minutes of work.

Neither can come in unnoticed: a file that imports torch is skipped as a whole, and says so; a test that is marked
`process` is left out; and one that imports torch or starts a process all the same fails. The latter does so in every
run, so that the quick run stays one. `python -m tests.support.quick` prints where its tests are.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import pytest

_TORCH = "torch"
_STARTS = {"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.system"}
_STARTS_ONE = "starts a process; mark it `process`"
# They are short, and serve nobody.
_TOOLS = {"git", "make"}


# Where the quick run looks for its tests.
PATHS = (
    "tests/unit", "tests/golden", "tests/compatibility", "tests/contract", "tests/hostile/limits",
    "tests/conformance/test_recordings.py", "tests/conformance/test_settings_table.py",
    "tests/conformance/test_table.py",
)  # fmt: skip


def begin(config: pytest.Config) -> None:
    """Add what the options ask for to this run."""
    is_quick = config.getoption("--quick")
    config.pluginmanager.register(NoProcesses(() if is_quick else PATHS))
    if is_quick:
        config.pluginmanager.register(Quick())


class NoProcesses:
    """Refuses processes to the tests at `paths` that are not marked `process`; without paths, to all."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._files = tuple(path for path in paths if path.endswith(".py"))
        self._folders = tuple(f"{path}/" for path in paths if not path.endswith(".py"))
        self._refuses = False
        sys.addaudithook(self._audit)
        start = BaseProcess.start  # without an event, where a server forks the process

        def start_unless_refused(process: BaseProcess) -> None:
            if self._refuses:
                _refuse(_STARTS_ONE)
            start(process)

        BaseProcess.start = start_unless_refused  # type: ignore[method-assign]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        path = item.nodeid.partition("::")[0]
        is_quick = not (self._files or self._folders) or path in self._files or path.startswith(self._folders)
        self._refuses = is_quick and not item.get_closest_marker("process")
        try:
            return (yield)
        finally:
            self._refuses = False

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._refuses and event in _STARTS and not _is_tool(event, arguments):
            _refuse(_STARTS_ONE)


class Quick:
    """Refuses torch from the start."""

    def __init__(self) -> None:
        if _TORCH in sys.modules:
            raise pytest.UsageError("a conftest has imported torch already; give --quick the folders above it")
        self._is_running = False
        self._collected = ""
        sys.meta_path.insert(0, self)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collectstart(self, collector: pytest.Collector) -> None:
        self._collected = collector.nodeid

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Iterator[None]:
        self._is_running = True
        try:
            return (yield)
        finally:
            self._is_running = False

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("process")])
        items[:] = [item for item in items if not item.get_closest_marker("process")]

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == _TORCH and self._is_running:
            _refuse("imports torch; let its file import it")
        if name == _TORCH:
            pytest.skip(f"{self._collected} imports torch", allow_module_level=True)
        return None


def _is_tool(event: str, arguments: tuple[Any, ...]) -> bool:
    return event == "subprocess.Popen" and Path(arguments[0]).name in _TOOLS


def _refuse(what: str) -> NoReturn:
    pytest.fail(f"a test of the quick run {what}")


if __name__ == "__main__":
    print(*PATHS)
