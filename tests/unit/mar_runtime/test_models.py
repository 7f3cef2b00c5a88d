"""Models that come and go while the server runs, whoever still waits for it and whatever goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from data_plane.errors import UnknownModel
from data_plane.model import Models
from data_plane.model_server.errors import ModelFailed
from data_plane.server.metrics import ServerMetrics
from mar_runtime import engines
from mar_runtime.configuration.plan import ArchiveRequest, FileRequest, ModelRequest
from mar_runtime.configuration.settings import RuntimeSettings, ServingOptions
from mar_runtime.engines import CannotLoad, GpuLost
from mar_runtime.metrics.exposition import HandlerMetrics
from mar_runtime.metrics.start import StartTimes
from mar_runtime.models import builder, supervisor
from mar_runtime.models.preparation import PreparedArchive, prepare
from mar_runtime.models.supervisor import LoadFailed, ModelSupervisor
from mar_runtime.pool.worker_pool import PoolPolicy
from mar_runtime.worker.spec import HandlerSpec
from tests.support.batching import call
from tests.support.fake_engine import FakeEngine, Outputs, rows
from tests.support.model_folder import manifest, write_files, write_mar
from torchserve_compat.packages.installation import Installer
from torchserve_compat.store.settings import BatchOptions
from torchserve_compat.store.versions import ModelVersion


class Pools:
    """Stands for processes: `open` lets their start and their end go on, a `failure` makes the start fail."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.failure: Exception | None = None
        self.started: list[str] = []
        self.gpus: dict[str, tuple[int, ...]] = {}

    def pool(
        self,
        _context: object,
        spec: HandlerSpec,
        policy: PoolPolicy,
        *,
        gpus: Sequence[int],
        **_: object,
    ) -> Pool:
        self.gpus[spec.model] = tuple(gpus)
        return Pool(self, spec.model, policy.workers)


class Pool:
    def __init__(self, pools: Pools, model: str, workers: int) -> None:
        self._pools = pools
        self._model = model
        self._workers = workers

    def watch(self, on_change: Callable[[int, str], None]) -> None:
        on_change(self._workers, "")

    async def start(self) -> None:
        self._pools.started.append(self._model)
        await self._pools.open.wait()
        if self._pools.failure:
            raise self._pools.failure

    async def close(self) -> None:
        await self._pools.open.wait()


@pytest.fixture
async def pools(monkeypatch: pytest.MonkeyPatch) -> Pools:
    pools = Pools()
    monkeypatch.setattr(builder, "ProcessPool", pools.pool)
    return pools


def archive(folder: Path, name: str, yaml: bytes = b"minWorkers: 1\n") -> ArchiveRequest:
    files = {"handler.py": b"def handle(data, context): return data\n", "c.yaml": yaml}
    path = write_mar(folder / f"{name}.mar", manifest(modelName=name, configFile="c.yaml"), files)
    return ArchiveRequest(ModelVersion(name, "1.0", path.name, is_default=True), path)


def folder_with_handler(folder: Path, yaml: str) -> ArchiveRequest:
    source = folder / "source"
    write_files(source, {"handler.py": b"def handle(data, context): return data\n", "model-config.yaml": yaml.encode()})
    return ArchiveRequest(ModelVersion("m", "1.0", "handler.py", is_default=True), source)


def serving(folder: Path, *there: ModelRequest, gpus: int = 0, cuda: bool = False) -> tuple[ModelSupervisor, Models]:
    """A server that serves nothing yet, and these are in its model directory."""
    models = Models()
    settings = RuntimeSettings(
        work_dir=folder / "work", processors=2, threads=None, gpus=gpus, cuda=cuda, metrics=None, withheld=(),
        installer=Installer(), properties={}, options=ServingOptions(BatchOptions()),
    )  # fmt: skip
    served = ModelSupervisor(models, settings, lambda: there, metrics=ServerMetrics(), handler_metrics=HandlerMetrics())
    return served, models


async def abandon(call: Any, pools: Pools) -> None:
    """Begins, and gives up when it waits for processes."""
    pools.open.clear()
    started = len(pools.started)
    waiting = asyncio.ensure_future(call)
    while len(pools.started) == started and not waiting.done():  # noqa: ASYNC110 - unpacking is in a thread
        await asyncio.sleep(0.001)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_load_whose_caller_gives_up_is_finished(tmp_path: Path, pools: Pools) -> None:
    served, models = serving(tmp_path, archive(tmp_path, "m"))

    await abandon(served.load("m"), pools)
    before = models.names
    pools.open.set()
    await served.unload("m")  # waits until the load is over

    assert (before, models.names, pools.started) == (("m",), (), ["m"])


async def test_a_caller_that_gives_up_before_its_turn_changes_nothing(tmp_path: Path, pools: Pools) -> None:
    served, models = serving(tmp_path, archive(tmp_path, "m"))
    await abandon(served.load("m"), pools)

    second = asyncio.ensure_future(served.load("m"))
    await asyncio.sleep(0)
    second.cancel()
    pools.open.set()
    with pytest.raises(asyncio.CancelledError):
        await second
    await served.load("m")

    assert (pools.started, models.is_ready("m")) == (["m", "m"], True)


async def test_an_unload_whose_caller_gives_up_is_finished(tmp_path: Path, pools: Pools) -> None:
    served, models = serving(tmp_path, archive(tmp_path, "m"))
    await served.load("m")

    pools.open.clear()
    unloading = asyncio.ensure_future(served.unload("m"))
    while models.ready:  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(0)
    unloading.cancel()
    pools.open.set()
    with pytest.raises(asyncio.CancelledError):
        await unloading
    with pytest.raises(UnknownModel):
        await served.unload("m")

    assert (models.ready, models.names) == (False, ())


async def test_what_nobody_expects_is_told_and_leaves_nothing(
    tmp_path: Path, pools: Pools, caplog: pytest.LogCaptureFixture
) -> None:
    served, models = serving(tmp_path, archive(tmp_path, "m"))
    pools.failure = OSError("no processes left")

    with pytest.raises(LoadFailed) as raised:
        await served.load("m")

    assert raised.value.message == "Model m could not be loaded: OSError: no processes left"
    assert (models.ready, models.names) == (False, ())
    assert "Traceback" in caplog.text


@pytest.mark.parametrize(
    ("yaml", "why"),
    [
        (b"released: 2024-13-45\n", "month must be in 1..12"),
        (b"a: [\n", "while parsing a flow node"),
        (b"[" * 1_000, "maximum recursion depth exceeded"),
    ],
)
async def test_an_archive_whose_yaml_cannot_be_read_is_refused(
    tmp_path: Path, pools: Pools, yaml: bytes, why: str
) -> None:
    request = archive(tmp_path, "m", yaml)
    served, models = serving(tmp_path, request)

    with pytest.raises(LoadFailed) as refused:
        await served.load("m")
    with pytest.raises(ModelFailed) as ended:
        await served.run([request], StartTimes(CollectorRegistry(), 0.0))

    assert refused.value.message == str(ended.value)
    assert str(ended.value).startswith("m.mar: its c.yaml cannot be read: ")
    assert why in str(ended.value)
    assert (models.names, pools.started) == ((), [])


@pytest.mark.parametrize(
    ("yaml", "message"),
    [
        ("a: [", "model-config.yaml cannot be read: while parsing a flow node"),
        ("- 1", "model-config.yaml has no settings; write NAME: VALUE in each line, or remove the file."),
        ("sequenceBatching: 2", "model-config.yaml has sequenceBatching: 2; write true or false."),
    ],
)
async def test_the_settings_of_a_folder_are_called_by_their_file(
    tmp_path: Path, pools: Pools, yaml: str, message: str
) -> None:
    request = folder_with_handler(tmp_path, yaml)
    served, _ = serving(tmp_path, request)

    with pytest.raises(LoadFailed) as refused:
        await served.load("m")

    assert refused.value.message.startswith(message)
    assert "pack it again" not in refused.value.message


async def test_settings_of_a_folder_without_effect_are_called_by_their_file(
    tmp_path: Path, pools: Pools, caplog: pytest.LogCaptureFixture
) -> None:
    served, _ = serving(tmp_path, folder_with_handler(tmp_path, 'minWorkers: "2"'))

    await served.load("m")

    assert (
        'model-config.yaml: minWorkers: "2" has no effect, in TorchServe either; write a whole number from 0 to '
        "2147483647, without quotes"
    ) in caplog.messages


async def test_all_archives_that_cannot_be_served_are_told_at_once(
    tmp_path: Path, pools: Pools, caplog: pytest.LogCaptureFixture
) -> None:
    requests = [archive(tmp_path, name, content) for name, content in {"a": b"[", "b": b"", "c": b"["}.items()]
    served, _ = serving(tmp_path, *requests)

    with pytest.raises(ModelFailed) as ended:
        await served.run(requests, StartTimes(CollectorRegistry(), 0.0))

    why = "{}.mar: its c.yaml cannot be read: while parsing a flow node\nexpected the node content"
    assert str(ended.value).startswith(why.format("a"))
    assert str(ended.value).endswith("Correct it and pack it again. The log has 1 more.")
    (logged,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert logged.startswith(why.format("c"))


async def test_a_failure_waits_for_no_slow_model(tmp_path: Path, pools: Pools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "FAIL_TOO_TIME", 0.01)
    broken = archive(tmp_path, "broken", b"[")

    async def prepared(request: ArchiveRequest, settings: RuntimeSettings, models: int) -> PreparedArchive:
        if request is not broken:
            await asyncio.Event().wait()
        return await prepare(request, settings, models)

    monkeypatch.setattr(supervisor, "prepare", prepared)
    requests = [archive(tmp_path, "slow"), broken]
    served, _ = serving(tmp_path, *requests)

    with pytest.raises(ModelFailed, match=r"^broken\.mar: its c\.yaml cannot be read"):
        await asyncio.wait_for(served.run(requests, StartTimes(CollectorRegistry(), 0.0)), 20)


async def test_a_load_that_is_under_way_ends_with_the_server(tmp_path: Path, pools: Pools) -> None:
    served, _ = serving(tmp_path, archive(tmp_path, "m"))
    await abandon(served.load("m"), pools)
    begun = asyncio.all_tasks() - {asyncio.current_task()}
    closing = asyncio.ensure_future(served.close())
    while any(not task.done() for task in begun):  # noqa: ASYNC110 - what is under test has no other end
        await asyncio.sleep(0)
    pools.open.set()
    await closing

    assert {task.cancelled() for task in begun} == {True}


# --- GPUs --------------------------------------------------------------------------------------------


async def test_models_share_the_gpus_unless_their_yaml_names_some(
    tmp_path: Path, pools: Pools, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices: list[str] = []

    def load_engine(path: Path, device: str, _: int) -> None:
        devices.append(device)
        raise CannotLoad(path, "is not a model")

    monkeypatch.setattr(engines, "load_engine", load_engine)
    yaml = {"a": b"minWorkers: 1", "b": b"minWorkers: 2", "named": b"deviceIds: [2, 0]", "cpu": b"deviceType: cpu"}
    archives = [archive(tmp_path, name, content) for name, content in yaml.items()]
    served, _ = serving(tmp_path, *archives, FileRequest("bare", tmp_path / "bare.pt"), gpus=4)

    for name in yaml:
        await served.load(name)
    with pytest.raises(LoadFailed):
        await served.load("bare")

    assert pools.gpus == {"a": (0, 1, 2, 3), "b": (1, 2, 3, 0), "named": (2, 0), "cpu": ()}
    assert devices == ["cuda:3"]


async def test_a_gpu_that_a_model_file_has_lost_ends_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All model files share its process."""

    def lose(_: Outputs) -> Outputs:
        raise GpuLost("the GPU is gone")

    (tmp_path / "bare.pt").touch()
    monkeypatch.setattr(engines, "load_engine", lambda *_: FakeEngine(lose))
    served, models = serving(tmp_path)
    serves = asyncio.ensure_future(
        served.run([FileRequest("bare", tmp_path / "bare.pt")], StartTimes(CollectorRegistry(), 0))
    )
    while not (health := models.health("bare")) or not health.is_ready:  # noqa: ASYNC110 - it loads in a thread
        await asyncio.sleep(0.001)

    with pytest.raises(GpuLost):
        await models.get("bare").infer(rows(1), call())
    with pytest.raises(ModelFailed, match=r"^Model bare: the GPU is gone$"):
        await serves


@pytest.mark.parametrize(("cuda", "touching"), [(True, set()), (False, {"ts.torch_handler.base_handler"})])
def test_where_cuda_is_there_workers_are_forked_from_a_process_that_has_not_touched_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cuda: bool, touching: set[str]
) -> None:
    """With number_of_gpu=0 as well: the import of TorchServe's handlers looks for GPUs all the same."""
    preloaded: list[str] = []
    monkeypatch.setattr(forkserver, "set_forkserver_preload", preloaded.extend)

    serving(tmp_path, gpus=0, cuda=cuda)

    assert {"torch"} <= set(preloaded)
    assert touching == {"ts.torch_handler.base_handler"} & set(preloaded)
