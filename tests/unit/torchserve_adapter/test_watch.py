"""When a model is ready, which versions it has, and when waiting for it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from data_plane.errors import DeadlineExceeded, NotReady
from data_plane.model_server.errors import ModelFailed
from tests.unit.torchserve_adapter.watching import (
    ANSWERED,
    DIED,
    KILLED,
    LATE,
    LOADING,
    READY,
    UNKNOWN,
    Step,
    Watched,
    failure,
    leave,
    version,
    watch,
)


async def test_a_model_is_ready_when_every_version_has_a_ready_worker(tmp_path: Path) -> None:
    half = (version(1), version(0, "2.0"))
    whole = (version(1), version(1, "2.0"))

    client = await watch(tmp_path, None, LOADING, half, whole)

    assert client.seen == [False, False, False, False, True]


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


async def test_an_answer_of_another_version_is_none_between_deaths(tmp_path: Path) -> None:
    second = DIED.replace("W-9000-bert_1.0", "W-9001-bert_2.0")
    both = (version(1), version(1, "2.0"))

    with pytest.raises(ModelFailed, match="died 5 times in a row"):
        await watch(tmp_path, both, *[second, both, ANSWERED] * 5, both)


async def test_a_worker_that_torchserve_has_given_up_on_ends_it(tmp_path: Path) -> None:
    patience = 300 + 144 + 120  # the last is startupTimeout

    message = "has had no worker for 565 s, and TorchServe no longer restarts it; the last time"
    with pytest.raises(ModelFailed, match=message):
        await watch(tmp_path, READY, DIED, LOADING, patience, LOADING, 1, LOADING)


async def test_what_an_earlier_worker_ended_by_is_forgotten(tmp_path: Path) -> None:
    before = leave(tmp_path, failure(type="SystemExit"))

    with pytest.raises(ModelFailed, match=KILLED):
        await watch(tmp_path, READY, before, DIED, LOADING, READY, *[DIED] * 4, LOADING)


async def test_the_report_of_a_death_that_is_not_counted_yet_is_kept(tmp_path: Path) -> None:
    last = leave(tmp_path, failure(type="SystemExit"), later_s=1)

    with pytest.raises(ModelFailed, match="died 5 times in a row; the last time by SystemExit"):
        await watch(tmp_path, READY, *[DIED] * 4, LOADING, last, READY, DIED, LOADING)


async def test_a_worker_that_was_too_late_is_not_called_short_of_memory(tmp_path: Path) -> None:
    with pytest.raises(ModelFailed) as starting:
        await watch(tmp_path, LATE, DIED, LOADING)
    with pytest.raises(ModelFailed) as serving:
        await watch(tmp_path, READY, *[LATE, DIED, LOADING, READY] * 5)

    assert [str(raised.value) for raised in (starting, serving)] == [
        "Model bert (bert.mar) was not loaded within 120 s (startupTimeout); raise it in the model's settings, or "
        "default_startup_timeout in config.properties, or load less in `initialize`.",
        "The worker of model bert (bert.mar) died 5 times in a row; the last time because it did not respond within "
        "120 s (responseTimeout), or did not load within 120 s (startupTimeout); raise them, or let the handler do "
        "less",
    ]


async def test_a_worker_that_was_late_before_and_is_killed_now_was_killed(tmp_path: Path) -> None:
    with pytest.raises(ModelFailed, match=KILLED):
        await watch(tmp_path, READY, LATE, *[DIED] * 5, LOADING)


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
        "(at handler.py:3 in <module>). Add the package with the module x to the model's requirements.txt with "
        "install_py_dep_per_model=true, or install it beside the server (on a cluster: in its image); "
        "add a module of your own to the model's files."
    )


async def test_versions_are_served_with_the_first_as_the_default_and_as_many_batches_as_workers(tmp_path: Path) -> None:
    watched = Watched(tmp_path, (version(2, "2.0"), version(1, "1.0")))

    await watched.run()

    assert [(entry.version, entry.state) for entry in watched.client.index] == [("2.0", "READY"), ("1.0", "READY")]
    assert (watched.model().version, watched.model().queue.concurrency) == ("2.0", 2)
    assert (watched.model("1.0").version, watched.model("1.0").queue.concurrency) == ("1.0", 1)
