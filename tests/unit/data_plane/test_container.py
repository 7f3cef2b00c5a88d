"""What a container may use: its processors by affinity and limit, its memory, on nodes of either kind."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from data_plane.limits import BUFFERED_SHARE
from data_plane.model_server import container
from data_plane.model_server.life import request_budget

MIB = 1024 * 1024
NO_LIMIT = "9223372036854771712"  # as older nodes say it


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(container, "_GROUPS", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    return tmp_path


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"{content}\n")


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({}, None),
        ({"cpu.max": "max 100000"}, None),
        ({"cpu.max": "200000 100000"}, 2),
        ({"cpu.max": "150000 100000"}, 2),
        ({"cpu.max": "50000 100000"}, 1),
        ({"cpu.max": "900000 100000"}, None),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({"cpu/cpu.cfs_quota_us": "150000", "cpu/cpu.cfs_period_us": "100000"}, 2),
    ],
)
def test_processors_are_those_of_the_affinity_or_fewer_by_the_limit(
    groups: Path, files: Mapping[str, str], limit: int | None
) -> None:
    write(groups, files)

    assert (container.processor_limit(), container.processors()) == (limit, limit or 4)


@pytest.mark.parametrize(
    ("limit", "left"), [("max", None), ("3000", 3000 - 800 + 200), ("700", 100), ("500", 0), ("9000", 8400)]
)
def test_memory_that_is_left_is_what_the_limit_allows(groups: Path, limit: str, left: int | None) -> None:
    write(groups, {"memory.max": limit, "memory.current": "800", "memory.stat": "anon 600\ninactive_file 200"})

    assert container.memory_limit() == (None if limit == "max" else int(limit))
    assert container.memory_left() == left


@pytest.mark.parametrize(("limit", "left"), [("3000", 3000 - 800 + 200), (NO_LIMIT, None)])
def test_older_nodes_keep_it_elsewhere(groups: Path, limit: str, left: int | None) -> None:
    used = {"memory/memory.usage_in_bytes": "800", "memory/memory.stat": "inactive_file 1\ntotal_inactive_file 200"}
    write(groups, {"memory/memory.limit_in_bytes": limit, **used})

    assert container.memory_limit() == (None if limit == NO_LIMIT else int(limit))
    assert container.memory_left() == left


def test_without_groups_there_is_no_limit(groups: Path) -> None:
    assert (container.memory_limit(), container.memory_left()) == (None, None)


def test_requests_get_a_share_of_the_memory(groups: Path) -> None:
    """Each process of a server its own, of the limit or of what the machine has; a flag says otherwise."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    without_limit = request_budget(None).limit
    write(groups, {"memory.max": f"{8 * MIB}"})
    limits = (request_budget(None).limit, request_budget(None, processes=2).limit, request_budget(7, 2).limit)
    write(groups, {"memory.max": f"{2 * machine}"})

    assert limits == (8 * MIB * BUFFERED_SHARE, 4 * MIB * BUFFERED_SHARE, 7)
    assert without_limit == request_budget(None).limit == int(machine * BUFFERED_SHARE)
