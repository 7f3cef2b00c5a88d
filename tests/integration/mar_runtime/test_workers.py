"""How many workers a model has that is told no number: one for each processor, where memory goes far enough."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import psutil
import pytest

from data_plane.model_server import container
from mar_runtime import resources
from mar_runtime.archives.unpack import unpack
from mar_runtime.pool.forkserver import workers_context
from mar_runtime.pool.pipe import NeverStarted
from mar_runtime.pool.process_pool import ProcessPool
from mar_runtime.pool.worker_pool import PoolPolicy
from mar_runtime.pool.worker_process import WorkerProcess
from mar_runtime.worker.spec import HandlerNotLoaded, HandlerSpec
from tests.integration.mar_runtime.serving import Waiting, model_dir, told, write_acting
from tests.support.model_folder import manifest, write_mar
from tests.support.runtimes import Runtime
from tests.support.waiting import eventually
from torchserve_compat import frames

WORKERS = min(4, container.processors())
LOADS_ONCE = b"""
from pathlib import Path

class Handler:
    def initialize(self, context):
        Path(context.system_properties["model_dir"], "loaded").touch(exist_ok=False)

    def handle(self, instances, context):
        return instances
"""
SAYS_WHAT_IS_COLLECTED = b"""
import gc
from pathlib import Path

class Handler:
    def initialize(self, context):
        collected = f"enabled: {gc.isenabled()}, torch: {gc.get_freeze_count() < 100_000}"
        Path(context.system_properties["model_dir"], "collected").write_text(collected)

    def handle(self, instances, context):
        return instances
"""
FAILS = b"""
import os
from pathlib import Path

class Handler:
    def initialize(self, context):
        Path(context.system_properties["model_dir"], "pid").write_text(str(os.getpid()))
        raise ValueError

    def handle(self, instances, context):
        return instances
"""
NEVER_LOADED = b"""
import os, time
from pathlib import Path

class Handler:
    def initialize(self, context):
        Path(context.system_properties["model_dir"], "pid").write_text(str(os.getpid()))
        time.sleep(1000)

    def handle(self, instances, context):
        return instances
"""
PATIENT_S = 240.0
_FORK = frames.RequestPart("body", "application/json", b'{"do": "fork"}')
FORK = frames.encode(frames.HandlerBatch("raw", [frames.HandlerRequest("1", (), [_FORK])]))
ALL = {"m": {"minWorkers": 0, "batchSize": 1}}


def test_it_has_one_for_each_processor(tmp_path: Path) -> None:
    with (
        Runtime("mar", model_dir(tmp_path / "models", ALL), has_torch=False) as runtime,
        contextlib.ExitStack() as busy,
    ):
        runtime.wait_ready(ALL)
        for index in range(WORKERS - 1):
            (tmp_path / str(index)).mkdir()
            busy.enter_context(Waiting(runtime, "m", tmp_path / str(index)))

        assert told(runtime, "m")


def spec_of(archive: Path) -> HandlerSpec:
    unpacked = unpack(archive, archive.parent / "unpacked")
    return HandlerSpec("m", str(unpacked.folder), unpacked.manifest.handler, "kserve", 1, 1, None, None, True)


@contextlib.asynccontextmanager
async def pool(archive: Path, policy: PoolPolicy, gpus: Sequence[int] = ()) -> AsyncIterator[list[int]]:
    """Of a pool that has started: how many workers it told of, one after the other."""
    spec = spec_of(archive)
    failed: list[BaseException] = []
    started = ProcessPool(
            workers_context(cuda=False), spec, policy,
            archive=archive.name, gpus=gpus, on_result=lambda *_: None, on_failure=failed.append,
        )  # fmt: skip
    numbers: list[int] = []
    await started.start()
    try:
        started.watch(lambda workers, _: numbers.append(workers))
        yield numbers
    finally:
        await started.close()
    assert not failed


async def until(holds: Callable[[], bool], what: str) -> None:
    await asyncio.to_thread(eventually, holds, what)


async def test_more_come_behind_the_first(tmp_path: Path) -> None:
    async with pool(write_acting(tmp_path, "m"), PoolPolicy(more_workers=2)) as numbers:
        assert numbers == [1]

        await until(lambda: numbers[-1] == 3, "there are three")
        assert numbers == [1, 2, 3]


async def test_none_comes_for_which_there_is_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(resources, "free_memory", lambda: 1024 * 1024)
    caplog.set_level(logging.INFO, "mar_runtime.pool.process_pool")

    async with pool(write_acting(tmp_path, "m"), PoolPolicy(more_workers=2)) as numbers:
        await until(lambda: "model m: 1 of 3 workers" in caplog.text, "it is told")

        assert numbers == [1]
        assert "and 1 MiB are free; minWorkers sets their number" in caplog.text


async def test_one_that_cannot_be_loaded_is_done_without(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    once = write_mar(tmp_path / "once.mar", manifest(modelName="m"), {"handler.py": LOADS_ONCE})

    async with pool(once, PoolPolicy(more_workers=2)) as numbers:
        words = "model m goes on with 1 workers: Model m (once.mar) could not be loaded"
        await until(lambda: words in caplog.text, "it is told")

        assert numbers == [1]


async def test_one_that_cannot_be_loaded_is_gone_when_that_is_known(tmp_path: Path) -> None:
    started = spec_of(write_mar(tmp_path / "m.mar", manifest(modelName="m"), {"handler.py": FAILS}))

    with pytest.raises(HandlerNotLoaded):
        await WorkerProcess.start(workers_context(cuda=False), started, PATIENT_S)

    assert not psutil.pid_exists(int((tmp_path / "unpacked/pid").read_text()))


async def test_one_that_nobody_waits_for_any_more_is_gone_with_its_start(tmp_path: Path) -> None:
    slow = write_mar(tmp_path / "m.mar", manifest(modelName="m"), {"handler.py": NEVER_LOADED})
    starting = asyncio.ensure_future(WorkerProcess.start(workers_context(cuda=False), spec_of(slow), PATIENT_S))
    told = tmp_path / "unpacked/pid"
    await until(lambda: told.is_file() and told.read_text() != "", "it is being loaded")

    starting.cancel()
    await asyncio.wait([starting])

    assert not psutil.pid_exists(int(told.read_text()))


async def forking(folder: Path) -> WorkerProcess:
    """A worker whose handler has forked a process, which keeps its connection."""
    worker = await WorkerProcess.start(workers_context(cuda=False), spec_of(write_acting(folder, "m")), PATIENT_S)
    await worker.send(FORK, PATIENT_S, lambda _: True)
    return worker


async def test_one_that_has_ended_is_sent_nothing_before_its_end_was_told(tmp_path: Path) -> None:
    """What is sent there would be lost."""
    worker = await forking(tmp_path)

    os.kill(worker.pid, signal.SIGKILL)
    eventually(lambda: not psutil.pid_exists(worker.pid), "it is gone")  # without a turn of the event loop

    with pytest.raises(NeverStarted):
        await worker.send(FORK, PATIENT_S, lambda _: True)
    assert "SIGKILL" in await worker.gone


async def test_the_end_of_one_is_noticed_of_which_the_dead_fork_server_cannot_tell(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    worker = await forking(tmp_path)
    os.kill(psutil.Process(worker.pid).ppid(), signal.SIGKILL)
    await until(lambda: f"worker {worker.pid} goes on" in caplog.text, "it is known to be an orphan")

    os.kill(worker.pid, signal.SIGKILL)

    assert await asyncio.wait_for(worker.gone, PATIENT_S)


async def test_collections_leave_alone_what_was_imported_before_the_fork(tmp_path: Path) -> None:
    """Each would copy some 45 MiB that workers share."""
    archive = write_mar(tmp_path / "m.mar", manifest(modelName="m"), {"handler.py": SAYS_WHAT_IS_COLLECTED})

    async with pool(archive, PoolPolicy()):
        assert (tmp_path / "unpacked/collected").read_text() == "enabled: True, torch: False"
