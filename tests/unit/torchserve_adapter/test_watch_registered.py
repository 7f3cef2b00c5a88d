"""Models that are registered and unregistered while TorchServe runs, and models that keep state."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from data_plane.batching.sequences import SequenceLimits
from data_plane.errors import NotReady
from data_plane.health import State
from data_plane.model import Call, IndexEntry
from data_plane.model_server.errors import ModelFailed
from data_plane.protocol.torchserve.requests import RawRequest
from tests.support.batching import turns_of_the_loop
from tests.unit.torchserve_adapter.watching import (
    ANSWERED,
    DIED,
    LOADING,
    READY,
    UNKNOWN,
    Watched,
    failure,
    leave,
    registered,
    version,
    watch,
)
from torchserve_adapter.process import WorkerDeaths
from torchserve_compat.frames import HandlerBatch, HandlerResult


async def test_what_is_unregistered_is_gone(tmp_path: Path) -> None:
    watched = Watched(tmp_path, (version(1), version(1, "2.0")), READY, UNKNOWN, registering=True)
    await watched.look()
    await watched.look()

    assert watched.models.versions("bert") == ("1.0",)

    await watched.look()

    assert (watched.models.names, watched.models.ready) == ((), False)


async def test_a_registered_model_whose_worker_keeps_dying_is_given_up_and_the_others_are_served(
    tmp_path: Path,
) -> None:
    last_words = failure(type="SystemExit", message="3", where="handler.py:9 in handle")

    watched = await registered(
        tmp_path, READY, *[DIED, LOADING, READY] * 4, DIED, leave(tmp_path, last_words), READY, READY
    )

    reason = (
        "is given up until it is registered anew. The worker of model bert (bert.mar) died 5 times in a row; the last "
        "time by SystemExit: 3 (at handler.py:9 in handle). "
        "Correct the handler or the files of the model, and serve it again"
    )
    assert watched.client.index == [IndexEntry("bert", "1.0", "UNAVAILABLE", reason)]
    assert watched.models.ready
    with pytest.raises(NotReady, match="bert is not ready: it is given up"):
        watched.model()


async def test_a_model_that_is_registered_anew_does_not_answer_for_the_one_before(tmp_path: Path) -> None:
    raised = leave(tmp_path, failure(type="RuntimeError", message="no weights"))

    watched = await registered(tmp_path, LOADING, DIED, raised, LOADING, UNKNOWN, DIED, raised, LOADING, READY, READY)

    assert watched.client.index == [IndexEntry("bert", "1.0", "READY", "")]


async def test_a_model_that_was_missing_at_the_start_is_served_when_it_is_registered(tmp_path: Path) -> None:
    watched = Watched(tmp_path, UNKNOWN, LOADING, READY, configured=False, registering=True)
    watched.models.record("bert", State.FAILED, "is missing in the model store")

    await watched.look()
    assert watched.models.reasons == {"bert": "is missing in the model store"}
    for _ in range(2):
        await watched.look()

    assert watched.models.index() == [IndexEntry("bert", "1.0", "READY", "")]


def test_a_version_with_underscores_is_read_from_the_log() -> None:
    deaths = WorkerDeaths()
    deaths.feed(DIED.replace("bert_1.0", "my_bert_model_1_0"))
    deaths.feed(DIED.replace("Retry worker", "no worker"))

    assert [deaths.count("my_bert_model", "1_0"), deaths.count("bert", "1.0")] == [1, 0]


RECOVERS = "2026-01-01 00:00:00,000 INFO    torchserve [W-9000-bert_1.0] Auto recovery start timestamp: 1795404600896"
STATEFUL = (version(2, batch_size=4, sequences=SequenceLimits(16, 54.0)),)


async def test_torchserve_has_as_many_requests_of_sequences_as_its_workers_take(tmp_path: Path) -> None:
    watched = Watched(tmp_path, STATEFUL)
    await watched.look()
    model, held = watched.models.get("bert"), list[HandlerBatch]()

    async def hold(batch: HandlerBatch, *_: object) -> HandlerResult:
        held.append(batch)
        return await asyncio.Event().wait()

    watched.client.transports["1.0"].send = hold
    calls = [Call(((b"ts_request_sequence_id", b"%d" % number),), "id", lambda: False) for number in range(9)]
    asked = [asyncio.create_task(model.raw(RawRequest(b""), call)) for call in calls]
    await turns_of_the_loop()

    assert [len(batch.requests) for batch in held] == [1] * 8  # two workers with batches of four
    for task in asked:
        task.cancel()


async def test_sequences_of_a_worker_that_died_end_the_pod_as_torchserve_answers_none_of_them(tmp_path: Path) -> None:
    watched = Watched(tmp_path, STATEFUL, RECOVERS, ANSWERED, STATEFUL)

    await watched.look()
    with pytest.raises(ModelFailed, match=r"^A worker of model bert \(bert\.mar\) died, and TorchServe does not serve"):
        await watched.look()


async def test_a_model_without_sequences_recovers(tmp_path: Path) -> None:
    client = await watch(tmp_path, READY, RECOVERS, DIED, READY)

    assert client.seen == [False, True, True]


async def test_a_registered_model_that_keeps_state_is_given_up_until_it_is_registered_anew(tmp_path: Path) -> None:
    watched = Watched(tmp_path, STATEFUL, RECOVERS, STATEFUL, (), STATEFUL, configured=False, registering=True)

    for _ in range(2):
        await watched.look()
    assert "died, and TorchServe does not serve sequences" in watched.models.reasons["bert"]
    for _ in range(2):
        await watched.look()

    assert watched.models.ready


async def test_one_that_could_not_be_unregistered_is_served_again_with_its_worker(tmp_path: Path) -> None:
    watched = Watched(tmp_path, READY, LOADING, READY, configured=False, registering=True)
    await watched.look()

    await watched.fail_to_unregister()
    await watched.look()
    assert "bert" not in watched.models.names
    await watched.look()

    assert await watched.ask() == b"answered"
