"""When a model is ready, which versions it has, and when waiting ends, on scripted answers of TorchServe."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
from prometheus_client import CollectorRegistry

from data_plane.batching.metrics import BatchMetricsRegistry
from data_plane.batching.sequences import SequenceLimits
from data_plane.errors import DeadlineExceeded, NotReady
from data_plane.health import Event
from data_plane.model import Call, IndexEntry, Models
from data_plane.model_server.errors import ModelFailed
from data_plane.protocol.torchserve.requests import RawRequest
from tests.support.batching import turns_of_the_loop
from torchserve_adapter.batching import BatchRequirements
from torchserve_adapter.client import TorchServeClient, Version
from torchserve_adapter.process import TorchServe, WorkerDeaths
from torchserve_adapter.served import ServedVersions
from torchserve_adapter.watch import ModelWatch
from torchserve_compat.frames import HandlerBatch, HandlerRequest, HandlerResponse, HandlerResult
from torchserve_compat.server.model import HandlerModel
from torchserve_compat.server.transport import OnPiece
from torchserve_compat.store.models import RequestedModel
from torchserve_compat.store.settings import BatchOptions

BERT = RequestedModel("bert", "bert.mar")
DIED = "2026-01-01 00:00:00,000 INFO    torchserve [W-9000-bert_1.0] Retry worker: 9000 in 1 seconds."
ANSWERED = "bert 1.0 has answered"
KILLED = "without a Python exception; if it was killed for memory, raise the container's memory limit. Last problems"

Answer = tuple[Version, ...] | None
Step = Answer | str | int | Callable[[], None]


def version(
    workers: int,
    name: str = "1.0",
    *,
    max_workers: int = 1,
    batch_size: int = 1,
    sequences: SequenceLimits | None = None,
) -> Version:
    return Version(name, "bert.mar", workers, max_workers, batch_size, 120, 120, sequences=sequences)


READY = (version(1),)
LOADING = (version(0),)
UNKNOWN: Answer = ()


class FakeTorchServe:
    def __init__(self) -> None:
        self.now = 0.0
        self.deaths = WorkerDeaths()

    def last_problems(self) -> str:
        return "Last problems in its log: boom"


@dataclass
class FakeTransport:
    """A worker that answers at once."""

    on_answer: Callable[[], None]
    given_up: bool = False

    async def send(self, batch: HandlerBatch, is_wanted: Callable[[], bool], on_piece: OnPiece) -> HandlerResult:
        if self.given_up:
            raise NotReady("no worker")
        self.on_answer()
        return HandlerResult([HandlerResponse(b"answered") for _ in batch.requests], 0.0)

    def give_up(self) -> None:
        self.given_up = True


class ScriptedClient:
    """Gives its answers one by one; then the test is over. Among them: lines of the log, answers of the worker, seconds
    that pass, and what the test does."""

    def __init__(self, torchserve: FakeTorchServe, models: Models, script: Sequence[Step]) -> None:
        self._torchserve = torchserve
        self._script = iter(script)
        self._models = models
        self.transports: dict[str, FakeTransport] = {}
        self.seen: list[bool] = []
        self.index: list[IndexEntry] = []

    async def names(self) -> tuple[str, ...]:
        return ("bert",)

    async def describe(self, model: str) -> Answer:
        self.seen.append(self._models.ready)
        self.index = self._models.index()
        # The next look is due at once, whatever the pause.
        asyncio.get_running_loop().call_soon(self._torchserve.deaths.news.set)
        for step in self._script:
            if step == ANSWERED:
                self.transports["1.0"].on_answer()
            elif isinstance(step, str):
                self._torchserve.deaths.feed(step)
            elif isinstance(step, int):
                self._torchserve.now += step
            elif callable(step):
                step()
            else:
                return step
        raise EOFError

    def transport(self, model: str, version: Version, on_answer: Callable[[], None]) -> FakeTransport:
        return self.transports.setdefault(version.version, FakeTransport(on_answer))


class Watched:
    """A watch over a script, and the models that it keeps."""

    def __init__(self, folder: Path, *script: Step, configured: bool = True, registering: bool = False) -> None:
        torchserve = FakeTorchServe()
        self.models = Models(["bert"] if configured else [])
        self.client = ScriptedClient(torchserve, self.models, script)
        client = cast(TorchServeClient, self.client)
        requirements = BatchRequirements(BatchOptions(), {}, {"bert.mar": {"batchSize": 6}})
        metrics = BatchMetricsRegistry(CollectorRegistry())
        self.served = ServedVersions(self.models, client, requirements, metrics, torchserve.deaths)
        self._watch = ModelWatch(
            [BERT] if configured else [], self.models, self.served, client, cast(TorchServe, torchserve), folder,
            registering=registering, clock=lambda: torchserve.now,
        )  # fmt: skip

    async def run(self) -> None:
        with pytest.raises(EOFError):
            await self._watch.run()

    async def look(self) -> None:
        await self._watch.look()

    async def ask(self, deadline: float = math.inf) -> bytes:
        """What a client gets of the default version."""
        call = Call((), "id", lambda: False, deadline)
        answer = await self.model().queue.submit(HandlerRequest("id", (), []), 1, "raw", call)
        return answer.body

    def model(self, version: str | None = None) -> HandlerModel:
        return cast(HandlerModel, self.models.get("bert", version))


async def watch(tmp_path: Path, *script: Step) -> ScriptedClient:
    """What was seen of the model's readiness after each answer."""
    watched = Watched(tmp_path, *script)
    await watched.run()
    return watched.client


async def test_a_model_is_ready_when_every_version_has_a_ready_worker(tmp_path: Path) -> None:
    half = (version(1), version(0, "2.0"))
    whole = (version(1), version(1, "2.0"))

    client = await watch(tmp_path, None, LOADING, half, whole)

    assert client.seen == [False, False, False, False, True]


async def test_a_model_that_loses_its_worker_is_not_ready_until_it_is_back(tmp_path: Path) -> None:
    client = await watch(tmp_path, READY, DIED, LOADING, READY)

    assert client.seen == [False, True, False, True]


async def test_a_torchserve_that_is_too_busy_to_say_has_lost_no_worker(tmp_path: Path) -> None:
    client = await watch(tmp_path, READY, None, None)

    assert client.seen == [False, True, True, True]


async def test_requests_wait_while_there_is_no_worker(tmp_path: Path) -> None:
    watched = Watched(tmp_path, READY, DIED, LOADING, READY)
    for _ in range(2):
        await watched.look()

    assert (watched.models.ready, watched.model().queue.concurrency) == (False, 0)
    waiting = asyncio.create_task(watched.ask())
    await asyncio.sleep(0)
    assert watched.model().queue.waiting == 1

    await watched.look()

    assert await waiting == b"answered"


async def test_a_request_waits_for_a_worker_no_longer_than_for_its_deadline(tmp_path: Path) -> None:
    watched = Watched(tmp_path, READY, DIED, LOADING)
    for _ in range(2):
        await watched.look()

    with pytest.raises(DeadlineExceeded):
        await watched.ask(deadline=0.0)


async def test_requests_that_wait_are_refused_when_there_will_be_no_worker(tmp_path: Path) -> None:
    watched = Watched(tmp_path, READY, DIED, LOADING)
    for _ in range(2):
        await watched.look()
    waiting = asyncio.create_task(watched.ask())
    await asyncio.sleep(0)

    watched.served.refuse_all_waiting()

    with pytest.raises(NotReady):
        await waiting


async def test_requests_that_wait_for_a_worker_do_not_hold_up_unloading(tmp_path: Path) -> None:
    watched = Watched(tmp_path, READY, DIED, LOADING, registering=True)
    for _ in range(2):
        await watched.look()
    waiting = asyncio.create_task(watched.ask())
    await asyncio.sleep(0)

    await watched.served.drained("bert")

    with pytest.raises(NotReady):
        await waiting


async def test_five_deaths_in_a_row_end_it_though_it_was_ready_after_each(tmp_path: Path) -> None:
    with pytest.raises(
        ModelFailed, match=f"^The worker of model bert .* died 5 times in a row; the last time {KILLED}"
    ):
        await watch(tmp_path, READY, *[DIED, LOADING, READY] * 5)


async def test_five_deaths_in_a_row_end_it_though_a_new_worker_is_there_before_the_look(tmp_path: Path) -> None:
    with pytest.raises(ModelFailed, match="died 5 times in a row"):
        await watch(tmp_path, READY, *[DIED] * 5, READY)


async def test_deaths_with_an_answer_between_them_are_no_loop(tmp_path: Path) -> None:
    await watch(tmp_path, READY, *[DIED, LOADING, READY, ANSWERED] * 20)


async def test_all_workers_may_die_at_once(tmp_path: Path) -> None:
    all_at_once = [DIED.replace("9000", str(9000 + worker)) for worker in range(10)]

    await watch(tmp_path, READY, *all_at_once, LOADING, READY)


async def test_an_answer_of_another_version_is_none_between_deaths(tmp_path: Path) -> None:
    second = "[W-9001-bert_2.0] Retry worker: 9001 in 1 seconds."
    both = (version(1), version(1, "2.0"))

    with pytest.raises(ModelFailed, match="died 5 times in a row"):
        await watch(tmp_path, both, *[second, both, ANSWERED] * 5, both)


async def test_a_worker_that_torchserve_has_given_up_on_ends_it(tmp_path: Path) -> None:
    patience = 300 + 144 + 120  # the last is startupTimeout

    with pytest.raises(ModelFailed, match="has had no worker for 565 s, and TorchServe tries no more; the last time"):
        await watch(tmp_path, READY, DIED, LOADING, patience, LOADING, 1, LOADING)


async def test_what_a_handler_ended_by_is_told(tmp_path: Path) -> None:
    last_words = failure(type="SystemExit", message="3", where="handler.py:9 in handle")

    with pytest.raises(ModelFailed) as raised:
        await watch(tmp_path, READY, *[DIED] * 5, leave(tmp_path, last_words), LOADING)

    assert str(raised.value) == (
        "The worker of model bert (bert.mar) died 5 times in a row; the last time by SystemExit: 3 "
        "(at handler.py:9 in handle). Correct the handler or the archive and upload it again."
    )


async def test_what_an_earlier_worker_ended_by_is_forgotten(tmp_path: Path) -> None:
    before = leave(tmp_path, failure(type="SystemExit"))

    with pytest.raises(ModelFailed, match=KILLED):
        await watch(tmp_path, READY, DIED, before, LOADING, READY, *[DIED] * 4, LOADING)


def failure(**fields: str | None) -> dict[str, str | None]:
    """What a worker leaves."""
    return {"model": "bert", "type": "", "message": "", "where": "", "missing_module": None, **fields}


def leave(folder: Path, report: dict[str, str | None]) -> Callable[[], None]:
    def write() -> None:
        (folder / "bert.json").write_text(json.dumps(report))

    return write


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ((DIED, LOADING), "The worker of model bert \\(bert.mar\\) died without a Python exception"),
        ((UNKNOWN,), "TorchServe could not load model bert \\(bert.mar\\). Last problems in its log: boom"),
        (((version(0, max_workers=0),),), "TorchServe could not load model bert"),
    ],
)
async def test_a_first_load_that_fails_ends_it(tmp_path: Path, script: Sequence[Step], message: str) -> None:
    with pytest.raises(ModelFailed, match=message):
        await watch(tmp_path, None, *script)


async def test_the_workers_report_is_the_reason(tmp_path: Path) -> None:
    leave(
        tmp_path,
        failure(
            type="ModuleNotFoundError",
            message="No module named 'x'",
            where="handler.py:3 in <module>",
            missing_module="x",
        ),
    )()

    with pytest.raises(ModelFailed) as raised:
        await watch(tmp_path, LOADING)

    assert str(raised.value) == (
        "Model bert (bert.mar) could not be loaded: ModuleNotFoundError: No module named 'x' "
        "(at handler.py:3 in <module>). Add x to the archive's requirements.txt with "
        "install_py_dep_per_model=true, or to the image."
    )


async def test_versions_are_served_with_the_first_as_the_default_and_as_many_batches_as_workers(tmp_path: Path) -> None:
    watched = Watched(tmp_path, (version(2, "2.0"), version(1, "1.0")))

    await watched.run()

    assert [(entry.version, entry.state) for entry in watched.client.index] == [("2.0", "READY"), ("1.0", "READY")]
    assert (watched.model().version, watched.model().queue.concurrency) == ("2.0", 2)
    assert (watched.model("1.0").version, watched.model("1.0").queue.concurrency) == ("1.0", 1)


async def test_scaled_workers_run_more_batches_of_the_same_model(tmp_path: Path) -> None:
    watched = Watched(tmp_path, READY, (version(3),))
    await watched.look()
    before = watched.model()

    await watched.run()

    assert watched.model() is before
    assert before.queue.concurrency == 3


async def test_a_model_that_is_registered_later_is_served_when_it_is_ready(tmp_path: Path) -> None:
    watched = Watched(tmp_path, LOADING, (version(1, batch_size=8),), configured=False, registering=True)

    await watched.run()

    assert watched.client.seen == [True, True, True]
    assert watched.client.index == [IndexEntry("bert", "1.0", "READY", "")]


async def test_a_version_that_is_registered_later_is_not_waited_for(tmp_path: Path) -> None:
    both = (version(1), version(0, "2.0"))
    watched = Watched(tmp_path, READY, both, (version(1), version(1, "2.0")), registering=True)

    await watched.run()

    assert watched.client.seen == [False, True, True, True]
    assert watched.models.versions("bert") == ("1.0", "2.0")


async def test_what_is_unregistered_is_gone(tmp_path: Path) -> None:
    watched = Watched(tmp_path, (version(1), version(1, "2.0")), READY, UNKNOWN, registering=True)
    await watched.look()
    await watched.look()

    assert watched.models.versions("bert") == ("1.0",)

    await watched.look()

    assert (watched.models.names, watched.models.ready) == ((), True)


async def registered(tmp_path: Path, *script: Step) -> Watched:
    """A watch that has seen the script of a model that is none of the configuration's."""
    watched = Watched(tmp_path, *script, configured=False, registering=True)
    await watched.run()
    return watched


async def test_a_registered_model_whose_worker_keeps_dying_is_given_up_and_the_others_are_served(
    tmp_path: Path,
) -> None:
    last_words = failure(type="SystemExit", message="3", where="handler.py:9 in handle")

    watched = await registered(
        tmp_path, READY, *[DIED, LOADING, READY] * 4, DIED, leave(tmp_path, last_words), READY, READY
    )

    reason = (
        "is given up until it is registered anew. The worker of model bert (bert.mar) died 5 times in a row; the last "
        "time by SystemExit: 3 (at handler.py:9 in handle). Correct the handler or the archive and upload it again"
    )
    assert watched.client.index == [IndexEntry("bert", "1.0", "UNAVAILABLE", reason)]
    assert watched.models.ready
    with pytest.raises(NotReady, match="bert is not ready: it is given up"):
        watched.model()


async def test_requests_that_wait_for_a_model_that_is_given_up_are_refused(tmp_path: Path) -> None:
    patience = 300 + 144 + 121  # the last is startupTimeout, and more
    watched = Watched(tmp_path, READY, DIED, LOADING, patience, LOADING, configured=False, registering=True)
    for _ in range(2):
        await watched.look()
    waiting = asyncio.create_task(watched.ask())
    await asyncio.sleep(0)

    await watched.look()

    with pytest.raises(NotReady):
        await waiting


async def test_a_registered_model_that_cannot_be_loaded_says_why(tmp_path: Path) -> None:
    raised = leave(tmp_path, failure(type="RuntimeError", message="no weights", where="handler.py:3 in initialize"))

    watched = await registered(tmp_path, LOADING, DIED, raised, LOADING, LOADING)

    reason = (
        "is given up until it is registered anew. Model bert (bert.mar) could not be loaded: RuntimeError: no weights "
        "(at handler.py:3 in initialize). Correct the handler or the archive and upload it again"
    )
    assert watched.client.index == [IndexEntry("bert", "", "UNAVAILABLE", reason)]
    assert watched.models.ready


async def test_a_model_that_is_registered_anew_does_not_answer_for_the_one_before(tmp_path: Path) -> None:
    raised = leave(tmp_path, failure(type="RuntimeError", message="no weights"))

    watched = await registered(tmp_path, LOADING, DIED, raised, LOADING, UNKNOWN, DIED, raised, LOADING, READY, READY)

    assert watched.client.index == [IndexEntry("bert", "1.0", "READY", "")]


async def test_a_model_that_was_missing_at_the_start_is_served_when_it_is_registered(tmp_path: Path) -> None:
    watched = Watched(tmp_path, UNKNOWN, LOADING, READY, configured=False, registering=True)
    watched.models.record("bert", Event.FAIL, "is missing in the model store")

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
