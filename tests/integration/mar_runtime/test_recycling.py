"""Workers that served long enough or hold too much memory are replaced, and no request notices."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from tests.integration.mar_runtime.serving import do, model_dir, told
from tests.support.runtimes import Runtime

MAX_REQUESTS = 5
MAX_MEMORY_MIB = 300


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    models = {"counted": {"batchSize": 1}, "leaking": {"batchSize": 1}, "pair": {"minWorkers": 2, "batchSize": 1}}
    flags = ("--worker-max-requests", str(MAX_REQUESTS), "--worker-max-memory", str(MAX_MEMORY_MIB))
    with Runtime("mar", model_dir(tmp_path_factory.mktemp("recycling"), models), *flags, has_torch=False) as running:
        yield running.wait_ready(models)


def descriptors(runtime: Runtime) -> int:
    return psutil.Process(runtime.process.pid).num_fds()


def living(runtime: Runtime) -> list[psutil.Process]:
    return [child for child in runtime.children() if state(child) not in (psutil.STATUS_ZOMBIE, None)]


def state(process: psutil.Process) -> str | None:
    """None for one that has ended since it was listed."""
    try:
        return process.status()
    except psutil.NoSuchProcess:
        return None


@pytest.mark.parametrize("model", ["counted", "pair"])
def test_under_load_every_request_is_answered_while_workers_come_and_go(runtime: Runtime, model: str) -> None:
    processes, open_files = len(living(runtime)), descriptors(runtime)

    served: set[int] = set()

    def have_changed() -> bool:
        served.update(clients.map(lambda _: told(runtime, model), range(20)))
        return len(served) > 8

    with ThreadPoolExecutor(4) as clients:
        runtime.wait_until(have_changed, "many workers have come and gone")

    # Whatever is still on its way in or out comes to an end, and nothing is left over.
    runtime.wait_until(lambda: len(living(runtime)) == processes, "as many processes as before")
    runtime.wait_until(lambda: descriptors(runtime) <= open_files + 1, "as many open files as before")
    assert not [child for child in runtime.children() if state(child) == psutil.STATUS_ZOMBIE]


def test_a_worker_that_leaks_is_replaced(runtime: Runtime) -> None:
    workers = {told(runtime, "leaking", "leak", mib=MAX_MEMORY_MIB)}

    def is_replaced() -> bool:
        workers.add(told(runtime, "leaking"))
        return len(workers) > 1

    runtime.wait_until(is_replaced, "another worker answers")
    assert re.search(
        rf"model leaking: worker ({'|'.join(map(str, workers))}) is replaced: it holds \d+ MiB", runtime.log
    )


def test_a_replacement_that_cannot_be_loaded_leaves_the_old_worker_at_work(runtime: Runtime) -> None:
    broken = runtime.folder / "work/models/counted@1.0/broken"
    broken.touch()

    kept = [told(runtime, "counted") for _ in range(3 * MAX_REQUESTS)]
    runtime.wait_until(lambda: "is kept: Model counted" in runtime.log, "the replacement has failed")
    broken.unlink()

    assert isinstance(told(runtime, "counted"), int)
    assert len(set(kept)) <= 3
    assert runtime.get("/v2/health/ready").document == {"ready": True}
    assert do(runtime, "counted", "fail").status == 500
