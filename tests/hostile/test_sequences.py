"""Workers that keep state are killed again and again: every answer is the right one or an error, never another's."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from tests.support.model_folder import manifest, write_mar
from tests.support.runtimes import ROOT, Request, Runtime

HANDLER = (ROOT / "tests/support/handlers/stateful.py").read_bytes()
YAML = b"sequenceBatching: true\nsequenceMaxIdleMSec: 60000\nmaxNumSequence: 16\nminWorkers: 2\nmaxWorkers: 2\n"
CLIENTS, ANSWERS, KILLS, BETWEEN_KILLS = 6, 100, 4, 60
# A worker died with the request, with the sequence, or has left the other too many.
ERRORS = {502, 410, 503}


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    folder = tmp_path_factory.mktemp("sequences")
    described = manifest(modelName="sums", handler="stateful.py", configFile="c.yaml")
    write_mar(folder / "model-store/sums.mar", described, {"stateful.py": HANDLER, "c.yaml": YAML})
    (folder / "config").mkdir()
    (folder / "config/config.properties").write_text("load_models=all\nservice_envelope=\n")
    with Runtime("mar", folder, has_torch=False) as running:
        yield running.wait_ready(["sums"])


@dataclass
class Killer:
    """Kills the worker that has just answered, each time that so many answers have come."""

    answers: int = 0
    kills: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answered(self, worker: int) -> None:
        with self.lock:
            self.answers += 1
            if self.kills < KILLS and self.answers % BETWEEN_KILLS == 0:
                self.kills += 1
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)


def add_up(runtime: Runtime, killer: Killer, sequence: str) -> set[int]:
    """Begins again after each error; returns the statuses that were none of 200."""
    errors: set[int] = set()
    expected = answers = 0
    while answers < ANSWERS:
        headers = (("ts_request_sequence_id", sequence), ("ts_request_sequence_start", str(not expected).lower()))
        answer = runtime.send(Request("POST", "/predictions/sums", b"1", headers))
        if answer.status != 200:
            errors.add(answer.status)
            expected = 0
            continue
        expected, answers = expected + 1, answers + 1
        assert answer.document["sum"] == expected
        killer.answered(answer.document["worker"])
    return errors


def test_no_sequence_goes_on_from_a_state_that_is_not_its_own(runtime: Runtime) -> None:
    killer = Killer()

    with ThreadPoolExecutor(CLIENTS) as clients:
        errors = list(clients.map(lambda client: add_up(runtime, killer, f"client {client}"), range(CLIENTS)))

    assert killer.kills == KILLS
    assert set.union(*errors) <= ERRORS
    assert 410 in set.union(*errors)
    runtime.wait_until(lambda: runtime.get("/v2/health/ready").status == 200, "it is ready")
