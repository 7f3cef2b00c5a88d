"""Archives that cannot be served end the server, with an exit code and one line that says why."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from unittest.mock import patch
from zipfile import ZipFile, ZipInfo

import pytest

import mar_runtime.cli
import torchserve_adapter.__main__
from tests.conformance.archives import HANDLERS
from tests.support.model_folder import manifest, write_mar
from tests.support.runtimes import OURS, Request, Runtime

pytestmark = pytest.mark.timeout(600)

CONFIGURATION_ERROR, MODEL_FAILED = 3, 4
MAINS = {"adapter": torchserve_adapter.__main__.main, "mar": mar_runtime.cli.main}
_HANDLER = {"handler.py": b"def handle(data, context): return data\n"}


def _truncated(path: Path) -> None:
    whole = write_mar(path, files={"handler.py": b"#" * 4096}).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


def _without_manifest(path: Path) -> None:
    with ZipFile(path, "w") as archive:
        archive.writestr("handler.py", _HANDLER["handler.py"])


def _broken_manifest(path: Path) -> None:
    write_mar(path, b'{"model": ')


def _escaping(path: Path) -> None:
    write_mar(path, files={**_HANDLER, "../../escaped.py": b"outside\n"})


def _absolute(path: Path) -> None:
    write_mar(path, files={**_HANDLER, str(path.parent / "escaped.py"): b"outside\n"})


def _linking(path: Path) -> None:
    write_mar(path)
    link = ZipInfo("weights.pt")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with ZipFile(path, "a") as archive:
        archive.writestr(link, "/etc/passwd")


def _bomb(path: Path) -> None:
    """Its directory claims a size that would take seconds to write."""
    content = bytearray(write_mar(path).read_bytes())
    size = content.index(b"PK\1\2") + 24
    content[size : size + 4] = b"\0\0\0\xf0"
    path.write_bytes(content)


def _without_handler(path: Path) -> None:
    write_mar(path, manifest(handler="missing.py"), {"other.py": b""})


def _raising(path: Path) -> None:
    write_mar(path, files={"handler.py": (HANDLERS / "unloadable.py").read_bytes()})


def _importing(path: Path) -> None:
    write_mar(path, files={"handler.py": b"import a_module_that_nobody_has\n"})


def _not_python(path: Path) -> None:
    write_mar(path, files={"handler.py": b"def handle(data, context)\n"})


def _uninstallable(path: Path) -> None:
    content = manifest(requirementsFile="requirements.txt")
    write_mar(path, content, {**_HANDLER, "requirements.txt": b"a-package-that-nobody-has==1\n"})


def _awaited(path: Path) -> None:
    write_mar(path, manifest(configFile="c.yaml"), {**_HANDLER, "c.yaml": b"asyncCommunication: true\n"})


def _without_idle_time(path: Path) -> None:
    write_mar(path, manifest(configFile="c.yaml"), {**_HANDLER, "c.yaml": b"sequenceBatching: true\n"})


def _without_settings(path: Path) -> None:
    write_mar(path, manifest(configFile="c.yaml"), {**_HANDLER, "c.yaml": b"- batchSize: 8\n"})


def _asynchronous(path: Path) -> None:
    write_mar(path, files={"handler.py": b"async def handle(data, context): return data\n"})


@dataclass(frozen=True)
class Bad:
    """`words` are in the reason, besides the archive's name or its model's.

    `found_by` finds it: the server's own process, before it starts another one; a server that installs or loads it; or
    only a worker. What a worker finds reaches its server as the exception of `raises` does, so one server of isvc-mar
    is enough for all of these; the worker of the adapter loads handlers by the same code.
    """

    name: str
    feature: str
    write: Callable[[Path], None]
    exit_code: int
    words: str
    found_by: Literal["main", "server", "worker"] = "main"


BAD = (
    Bad("truncated", "truncated", _truncated, CONFIGURATION_ERROR, "truncated"),
    Bad("no-manifest", "no manifest", _without_manifest, CONFIGURATION_ERROR, "MANIFEST.json"),
    Bad("broken-manifest", "a manifest that is not JSON", _broken_manifest, CONFIGURATION_ERROR, "MANIFEST.json"),
    Bad("traversal", "path traversal", _escaping, MODEL_FAILED, "'../../escaped.py'"),
    Bad("absolute", "an absolute path", _absolute, MODEL_FAILED, "outside of its folder"),
    Bad("link", "a link", _linking, MODEL_FAILED, "weights.pt"),
    Bad("bomb", "a zip bomb", _bomb, MODEL_FAILED, "claims to unpack to 3.8 GiB"),
    Bad("handler", "a missing handler", _without_handler, MODEL_FAILED, "missing", found_by="worker"),
    Bad("raises", "a handler that raises in `initialize`", _raising, MODEL_FAILED,
        "RuntimeError: the weights are not there (at handler.py:6 in initialize", found_by="server"),
    Bad("imports", "a handler that lacks a module", _importing, MODEL_FAILED, "a_module_that_nobody_has",
        found_by="worker"),
    Bad("syntax", "a handler that is not Python", _not_python, MODEL_FAILED, "SyntaxError", found_by="worker"),
    Bad("requirement", "a requirement that does not install", _uninstallable, MODEL_FAILED,
        "a-package-that-nobody-has", found_by="server"),
    Bad("no-settings", "a list in its YAML", _without_settings, CONFIGURATION_ERROR, "its c.yaml has no settings"),
    Bad("asynchronous", "a handler that is `async def`", _asynchronous, MODEL_FAILED,
        "The handler is `async def`, but handlers are not awaited", found_by="worker"),
    Bad("awaited", "`asyncCommunication` in its YAML: handlers are not awaited", _awaited, CONFIGURATION_ERROR,
        "asyncCommunication"),
    Bad(
        "sequences", "`sequenceBatching` without `sequenceMaxIdleMSec`", _without_idle_time, CONFIGURATION_ERROR,
        "sequenceMaxIdleMSec",
    ),
)  # fmt: skip


def each_found_by(finder: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("bad", [pytest.param(bad, id=bad.name) for bad in BAD if bad.found_by == finder])


@pytest.mark.parametrize("kind", OURS)
@each_found_by("main")
def test_an_archive_that_cannot_be_read_or_unpacked_ends_the_server(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], kind: str, bad: Bad
) -> None:
    folder = tmp_path / "models"
    configure(folder, "bad")
    bad.write(folder / "model-store/bad.mar")
    log = tmp_path / "termination-log"
    flags = ["--model-dir", folder, "--work-dir", tmp_path / "work", "--termination-log", log, "--host", "127.0.0.1"]

    with patch.dict(os.environ):  # isvc-mar sets variables for the libraries of its models
        exit_code = MAINS[kind]([*map(str, flags), "--http-port", "0", "--grpc-port", "0"])

    check(bad, exit_code, log.read_text(), capfd.readouterr().err)
    assert not list(tmp_path.rglob("escaped.py"))


@pytest.mark.parametrize("kind", OURS)
@each_found_by("server")
def test_an_archive_that_cannot_be_installed_or_loaded_ends_the_server(tmp_path: Path, kind: str, bad: Bad) -> None:
    configure(tmp_path, "bad")
    bad.write(tmp_path / "model-store/bad.mar")

    with Runtime(kind, tmp_path, has_torch=False) as runtime:
        exit_code = runtime.wait_exit()

        check(bad, exit_code, runtime.termination_message, runtime.log)


def check(bad: Bad, exit_code: int, reason: str, log: str) -> None:
    assert (exit_code, bad.words in reason, "bad" in reason) == (bad.exit_code, True, True), reason
    assert len(reason.splitlines()) == 1
    assert reason in log


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    configure(folder, "good")
    return write_mar(folder / "model-store/good.mar", manifest(modelName="good"), _HANDLER).parent


@pytest.fixture(scope="module")
def runtime(store: Path) -> Iterator[Runtime]:
    with Runtime("mar", store.parent, has_torch=False) as running:
        yield running.wait_ready(["good"])


@each_found_by("worker")
def test_a_handler_that_cannot_be_loaded_is_refused_in_a_worker(runtime: Runtime, store: Path, bad: Bad) -> None:
    """By a server that runs; one that starts ends, as `raises` shows."""
    configure(store.parent, "good", "bad")
    bad.write(store / "bad.mar")

    refused = runtime.send(Request("POST", "/v2/repository/models/bad/load"))

    reason = refused.document["error"]
    assert (refused.status, bad.words in reason, "bad.mar" in reason) == (500, True, True), reason
    assert runtime.get("/v1/models/good").status == 200


def configure(folder: Path, *models: str) -> None:
    settings = {"defaultVersion": True, "minWorkers": 1, "maxWorkers": 1}
    table = {model: {"1.0": {**settings, "marName": f"{model}.mar"}} for model in models}
    archives = ",".join(f"{model}={model}.mar" for model in models)
    (folder / "config").mkdir(parents=True, exist_ok=True)
    (folder / "config/config.properties").write_text(
        f"install_py_dep_per_model=true\nenable_model_api=true\nload_models={archives}\nmodels={json.dumps(table)}\n"
    )
    (folder / "model-store").mkdir(exist_ok=True)
