"""Runs that are stopped from outside, as processes of their own: what they leave, and what the next run makes of it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from storage_initializer.errors import Termination
from storage_initializer.termination import termination_raises, uninterrupted
from tests.integration.storage.conftest import Initialize
from tests.support.initializer_forks import Forks, forks
from tests.support.limits import memory_limit
from tests.support.memory_source import MemorySource, bring_alone
from tests.support.model_folder import read_tree

KILLS = 20


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Long enough to copy that a kill hits the middle: many small files and a big one."""
    chance = random.Random(0)
    for number in range(60):
        path = tmp_path / f"source/{number % 10}/{number}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(chance.randbytes(4096))
    (tmp_path / "source/weights.bin").write_bytes(chance.randbytes(4 << 20))
    return tmp_path / "source"


def start(*arguments: object, limit: Callable[[], None] | None = None) -> subprocess.Popen[str]:
    """A run that has just said what it is about to copy."""
    command = [sys.executable, "-m", "storage_initializer", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=limit)
    assert process.stdout is not None
    assert process.stdout.readline() == f"{arguments[0]} → {arguments[1]}\n"
    return process


@pytest.fixture(scope="module")
def runs() -> Iterator[Forks]:
    with forks() as started:
        yield started


def test_after_a_kill_at_any_moment_the_next_run_ends_with_exact_bytes(
    runs: Forks, initialize: Initialize, source: Path, tmp_path: Path
) -> None:
    environment = {"TERMINATION_LOG": str(tmp_path / "reason")}
    duration = runs.duration(source, tmp_path / "unharmed", environment=environment)
    chance, leftovers = random.Random(0), 0
    whole = read_tree(source)
    for number in range(10 * KILLS):
        destination = tmp_path / f"killed-{number}"
        runs.start(source, destination, environment=environment).kill_after(chance.uniform(0, duration))
        staged = destination / ".storage-initializer"
        leftovers += staged.exists()
        in_place = {path: content for path, content in read_tree(destination).items() if not path.startswith(".")}
        assert in_place.items() <= whole.items()

        assert initialize(source, destination).exit_code == 0
        assert read_tree(destination) == whole
        assert not staged.exists()
        if leftovers and number >= KILLS:
            break
    assert leftovers > 0


def test_sigterm_leaves_the_destination_as_it_was(tmp_path: Path) -> None:
    """A sparse file of 4 GiB takes seconds to copy and no space to keep."""
    (tmp_path / "source").mkdir()
    with (tmp_path / "source/weights").open("wb") as stream:
        stream.truncate(4 << 30)
    (tmp_path / "models").mkdir()
    (tmp_path / "models/weights").write_bytes(b"of the run before")

    process = start(tmp_path / "source", tmp_path / "models", "--termination-log", tmp_path / "reason")
    process.send_signal(signal.SIGTERM)
    _, reason = process.communicate()

    assert process.returncode == 143
    assert reason == "stopped by SIGTERM; start again to bring the model\n"
    assert (tmp_path / "reason").read_text() == reason.rstrip("\n")
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["weights"]
    assert read_tree(tmp_path / "models") == {"weights": b"of the run before"}


def test_an_interrupt_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    """The signal arrives while the second file is fetched."""

    def interrupt(path: str, start: int, stop: int) -> None:
        if path == "b":
            os.kill(os.getpid(), signal.SIGINT)

    source = MemorySource({"a": b"x", "b": b"x"}, on_open=interrupt)
    with pytest.raises(Termination) as raised, termination_raises():
        bring_alone(source, tmp_path / "models")

    assert raised.value.exit_code == 130
    assert list((tmp_path / "models").iterdir()) == []


def test_a_signal_waits_for_the_end_of_an_uninterrupted_block() -> None:
    steps = []

    def work() -> None:
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGTERM)
            steps.append("done")
        steps.append("never")

    with pytest.raises(Termination), termination_raises():
        work()
    assert steps == ["done"]


def test_a_second_signal_does_not_disturb_the_cleaning_up() -> None:
    steps = []

    def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            steps.append("cleaned up")

    with pytest.raises(Termination), termination_raises():
        work()
    assert steps == ["cleaned up"]


def test_a_signal_is_not_swallowed_where_exceptions_are() -> None:
    """As in ``logging``, which survives every Exception of its handlers."""
    steps = []

    def work() -> None:
        with suppress(Exception):
            os.kill(os.getpid(), signal.SIGTERM)
        steps.append("never")

    with pytest.raises(Termination), termination_raises():
        work()
    assert steps == []


def test_signals_have_their_old_meaning_afterwards() -> None:
    before = signal.getsignal(signal.SIGTERM)

    with termination_raises():
        pass

    assert signal.getsignal(signal.SIGTERM) is before


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """256 MiB, the pages that the kernel keeps of it included, in 64 MiB."""
    (tmp_path / "source").mkdir()
    with (tmp_path / "source/weights").open("wb") as stream:
        stream.truncate(256 << 20)

    with memory_limit(64 << 20) as limit:
        process = start(tmp_path / "source", tmp_path / "models", limit=limit)
        _, reason = process.communicate()

    assert (process.returncode, reason) == (0, "")
    assert (tmp_path / "models/weights").stat().st_size == 256 << 20
