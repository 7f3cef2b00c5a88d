"""Runs killed at any moment: what they leave at final names is whole, and the next one ends with exact bytes."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage_initializer.download import PART_BYTES
from storage_initializer.transfer import STAGING
from tests.e2e.stores.conftest import Store
from tests.support.initializer_forks import Forks, forks
from tests.support.model_folder import read_tree
from tests.support.object_stores.proxy import Stall, is_object, on, proxy
from tests.support.waiting import eventually

KILLS = 24  # unless the search is given minutes
_chance = random.Random(0)
FILES = {
    **{f"tokens/{number}.txt": _chance.randbytes(4_096) for number in range(24)},
    **{f"weights/{number}.bin": _chance.randbytes(1 << 20) for number in range(3)},
}


@pytest.fixture(scope="module")
def runs() -> Iterator[Forks]:
    with forks() as started:
        yield started


@pytest.mark.timeout(300)
def test_after_a_kill_at_any_moment_the_next_run_ends_with_exact_bytes(
    runs: Forks, bucket: Store, tmp_path: Path
) -> None:
    uri, environment = bucket.fill(FILES), {**bucket.environment(), "TERMINATION_LOG": str(tmp_path / "reason")}
    duration, chance = runs.duration(uri, tmp_path / "unharmed", environment=environment), random.Random(0)
    killed = staged = 0
    while killed < KILLS:
        destination = tmp_path / f"killed-{killed}"
        if runs.start(uri, destination, environment=environment).kill_after(chance.uniform(0, duration)) < 0:
            killed += 1
            staged += (destination / STAGING).exists()
            found = read_tree(destination).items()
            assert {(name, content) for name, content in found if not name.startswith(STAGING)} <= FILES.items()

        assert runs.start(uri, destination, environment=environment).exit_code() == 0
        assert read_tree(destination) == FILES
        shutil.rmtree(destination)
    assert staged > killed / 4


def test_the_run_after_a_kill_reads_only_what_is_missing(runs: Forks, bucket: Store, models: Path) -> None:
    """An object of two parts: the first has arrived, the second never comes."""
    content = random.Random(0).randbytes(PART_BYTES + 1)
    uri, second = bucket.fill({"weights.bin": content}), f"bytes={PART_BYTES}-{PART_BYTES}"
    stalled = on(Stall(), {1}, of=lambda request: request.headers.get("range") == second)
    with proxy(bucket.server.url, stalled) as between:
        environment = {**bucket.environment(between.url), "TERMINATION_LOG": str(models.with_name("reason"))}
        run = runs.start(uri, models, environment=environment)
        eventually(lambda: len(journal_of(models)) == 2, "the first part has arrived")
        assert run.kill_after(0) < 0
        before = len(between.requests)

        assert runs.start(uri, models, environment=environment).exit_code() == 0

    asked = [request.headers["range"] for request in between.requests[before:] if is_object(request)]
    assert asked == [second]
    assert read_tree(models) == {"weights.bin": content}


def journal_of(models: Path) -> list[str]:
    """Its title, and a line for each part."""
    path = models / STAGING / "arriving.journal"
    return path.read_text().splitlines() if path.exists() else []
