"""The memory that a server says it has."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from data_plane.server import metrics
from data_plane.server.metrics import ServerMetrics

NAME = "process_resident_memory_bytes"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says it in /proc")
def test_the_memory_of_a_server_has_that_of_its_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = metrics._resident(os.getpid())
    assert alone > 2**20
    monkeypatch.setattr(metrics, "_with_children", lambda process: [process, process])

    both = ServerMetrics().registry.get_sample_value(NAME)
    assert both is not None
    assert both > 1.5 * alone


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says it in /proc")
def test_the_processes_of_a_server_are_those_that_it_has_started_and_theirs() -> None:
    parent = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[1])

    assert os.getpid() in metrics._with_children(parent)


def test_where_the_system_does_not_say_there_is_no_such_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_resident", lambda _process: 0)

    assert ServerMetrics().registry.get_sample_value(NAME) is None
