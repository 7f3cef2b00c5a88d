"""Model directories for the real server, and requests to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.support.model_folder import manifest, write_mar
from tests.support.runtimes import Answer, Runtime

ACTING = Path(__file__).with_name("acting.py").read_bytes()

Parameters = Mapping[str, Any]


def write_acting(store: Path, model: str, version: str = "1.0") -> Path:
    """An archive with the handler of `acting.py`."""
    described = manifest(modelName=model, modelVersion=version, handler="acting.py")
    return write_mar(store / f"{model}-{version}.mar", described, {"acting.py": ACTING})


def model_dir(folder: Path, models: Mapping[str, Parameters], *lines: str) -> Path:
    """A directory that serves the acting handler under each name, in version 1.0."""
    table = {}
    for name, parameters in models.items():
        archive = write_acting(folder / "model-store", name)
        table[name] = {"1.0": {"marName": archive.name, "minWorkers": 1, "responseTimeout": 60, **parameters}}
    configure(folder, f"models={json.dumps(table)}", *lines)
    return folder


def configure(folder: Path, *lines: str) -> None:
    (folder / "config").mkdir(exist_ok=True, parents=True)
    (folder / "config/config.properties").write_text("\n".join([*lines, ""]))


def do(runtime: Runtime, model: str, action: str, **arguments: Any) -> Answer:
    return runtime.predict(model, {"instances": [{"do": action, **arguments}]})


def result(answer: Answer) -> Any:
    """The one prediction of an answer that must be good."""
    assert answer.status == 200, answer.body
    (prediction,) = answer.document["predictions"]
    return prediction


def told(runtime: Runtime, model: str, action: str = "tell", **arguments: Any) -> Any:
    return result(do(runtime, model, action, **arguments))


class Waiting:
    """A request that keeps a worker busy until it is released."""

    def __init__(self, runtime: Runtime, model: str, folder: Path) -> None:
        self._runtime = runtime
        self._model = model
        self._file = folder / "release"
        self._client = ThreadPoolExecutor(1)

    def __enter__(self) -> Waiting:
        self.answer: Future[Answer] = self._client.submit(do, self._runtime, self._model, "wait", file=str(self._file))
        self._runtime.wait_until(self._file.with_suffix(".reached").exists, "the handler has the request")
        return self

    def release(self) -> Answer:
        self._file.touch()
        return self.answer.result()

    def __exit__(self, *_: object) -> None:
        self._file.touch()
        self._client.shutdown()


def metric(runtime: Runtime, line: str) -> float:
    """The value behind `line`, 0 where it is not there yet."""
    for found in runtime.metrics().splitlines():
        name, _, value = found.rpartition(" ")
        if name == line:
            return float(value)
    return 0.0
