"""Values in config.properties, each with a server of its own: what TorchServe makes of them, and what ours do.

TorchServe's outcome is the status of requests to the model, or that the server ends, or is never ready.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance.case import predictions
from tests.conformance.recording import RECORDED
from tests.support.model_folder import manifest, write_mar
from tests.support.runtimes import TORCHSERVE, Request, Runtime
from tests.support.waiting import eventually

FILE = RECORDED / "values.json"
MODEL = "m"
ENDS, NEVER_READY = "the server ends", "never ready"
_READY_S = 60
_REQUESTS = 20
_LARGEST = 2**31 - 1
_LEAST = {
    "max_request_size": 1, "job_queue_size": 1, "default_response_timeout": 1, "default_startup_timeout": 1,
    "default_workers_per_model": 0, "number_of_gpu": 0, "netty_client_threads": 0,
}  # fmt: skip
_OF_EACH = ("", "0", "-1", "1.5")
_OF_ONE = ("2147483648", "[1, 2]")
_HANDLER = {"handler.py": b"def handle(data, context): return ['served'] * len(data) if data else None\n"}


@dataclass(frozen=True)
class Value:
    """One value of a setting. `refused` is the reason with which both of ours end with exit code 3; "": they serve.

    `only` is the runtime that the reason is of, where the other one has no use for the setting. `parameters` are those
    of a version within the value.
    """

    setting: str
    value: str
    refused: str = ""
    only: str = ""
    parameters: str = ""

    @property
    def line(self) -> str:
        return f"{self.setting}={self.value}"

    def is_refused_by(self, kind: str) -> bool:
        return bool(self.refused) and self.only in ("", kind)

    def outcome(self, kind: str) -> str:
        """What the runtime does, as the page tells it."""
        if self.is_refused_by(kind):
            return f"exit code 3: {self.refused.rstrip('.')}"
        return "the model is served, and the log names the setting" if self.refused else "the model is served"


def _numbers() -> Iterator[Value]:
    for setting, least in _LEAST.items():
        for value in (*_OF_EACH, *(_OF_ONE if setting == "max_request_size" else ())):
            bound = f"{_LARGEST} or less" if value == "2147483648" else f"{least} or more"
            is_served = value in ("", *(["0"] if least == 0 else []))
            refused = "" if is_served else f"config.properties: {setting} is {value!r}; write a whole number, {bound}."
            yield Value(setting, value, refused, only="adapter" if setting == "netty_client_threads" else "")


def _in_models(refused: str = "", **parameters: Any) -> Value:
    document = {MODEL: {"1.0": parameters}}
    return Value("models", json.dumps(document), _of_version("models", refused), parameters=json.dumps(parameters))


def _in_snapshot(refused: str, **parameters: Any) -> Value:
    own = {"defaultVersion": True, "marName": "m.mar", "minWorkers": 1, "maxWorkers": 1, "batchSize": 1,
           "maxBatchDelay": 100, "responseTimeout": 120}  # fmt: skip
    document = {"name": "startup.cfg", "modelCount": 1, "models": {MODEL: {"1.0": {**own, **parameters}}}}
    refused = _of_version("model_snapshot", refused)
    return Value("model_snapshot", json.dumps(document), refused, parameters=json.dumps(parameters))


def _of_version(setting: str, refused: str) -> str:
    return refused and f"{setting} in config.properties: model {MODEL}, version 1.0: {refused}"


VALUES = (
    *_numbers(),
    Value("load_models", "other.mar, m.mar"),
    Value("load_models", "other.mar,m = m.mar"),
    Value("load_models", "other.mar,,m.mar,"),
    Value("load_models", "m.mar,m.mar", "Model m is asked for twice from m.mar; name it once."),
    Value("load_models", "m.mar,flow.war"),
    Value("models", ""),
    Value("models", "[]", "config/config.properties: models is not a JSON object; correct it"),
    _in_models("batchSize is 0; write a whole number, 1 or more.", batchSize=0),
    _in_models("batchSize is 1.5; write a whole number, 1 or more.", batchSize=1.5),
    _in_models("batchSize is ''; write a whole number, 1 or more.", batchSize=""),
    _in_models("batchSize is [1, 2]; write a whole number, 1 or more.", batchSize=[1, 2]),
    _in_models("minWorkers is -1; write a whole number, 0 or more.", minWorkers=-1),
    _in_models(batchSize="4"),
    _in_snapshot("batchSize is 0; write a whole number, 1 or more.", batchSize=0),
    _in_snapshot("responseTimeout is 0; write a whole number, 1 or more.", responseTimeout=0),
    _in_snapshot("responseTimeout is 1.5; write a whole number, 1 or more.", responseTimeout=1.5),
)


def write_folder(folder: Path, *values: Value) -> Path:
    """A model directory with these values."""
    (folder / "config").mkdir(parents=True)
    for model in (MODEL, "other"):
        write_mar(folder / f"model-store/{model}.mar", manifest(modelName=model), _HANDLER)
    (folder / "model-store/flow.war").write_bytes(b"a workflow")
    settings = {"load_models": "m.mar", "default_workers_per_model": "1"}
    settings |= {one.setting: one.value for one in values}
    lines = (f"{name}={value}" for name, value in settings.items())
    (folder / "config/config.properties").write_text("\n".join([*lines, ""]))
    return folder


def record(folder: Path) -> str:
    """TorchServe's outcome of each value, by its line."""
    with ThreadPoolExecutor(2) as servers:
        outcomes = list(servers.map(lambda place: _outcome(folder / str(place), VALUES[place]), range(len(VALUES))))
    found = {value.line: outcome for value, outcome in zip(VALUES, outcomes, strict=True)}
    return json.dumps(found, indent=2) + "\n"


def recorded() -> Mapping[str, str]:
    found: dict[str, str] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.is_file() else {}
    return found


def _outcome(folder: Path, value: Value) -> str:
    with Runtime(TORCHSERVE, write_folder(folder, value)) as runtime:
        outcome = ""

        def is_clear() -> bool:
            nonlocal outcome
            outcome = ENDS if runtime.process.poll() is not None else _answered(runtime)
            return bool(outcome)

        try:
            eventually(is_clear, value.line, within=_READY_S)
        except AssertionError:
            return NEVER_READY
        return outcome


def _answered(runtime: Runtime) -> str:
    """The first failure of a few requests, as soon as there is a worker for them or TorchServe knows no such model.

    A timeout of 0 lets some of them pass.
    """
    try:
        described = runtime.send(Request("GET", f"/models/{MODEL}/all"), runtime.management_port)
        if described.status == 200 and not _has_worker(described.document):
            return ""
        statuses = (runtime.send(predictions(MODEL, b"x")).status for _ in range(_REQUESTS))
        return str(next((status for status in statuses if status != 200), 200))
    except OSError:
        return ""


def _has_worker(described: Any) -> bool:
    return any(worker["status"] == "READY" for version in described for worker in version["workers"])


def rows() -> Iterator[tuple[str, str, str, str]]:
    """Setting, value, TorchServe's outcome and that of ours."""
    theirs = recorded()
    for value in VALUES:
        ours, of_mar = value.outcome("adapter"), value.outcome("mar")
        told = ours if ours == of_mar else f"`kserve-torchserve`: {ours}; `isvc-mar`: {of_mar}"
        setting = f"`{value.setting}`{', a version' if value.parameters else ''}"
        yield setting, f"`{value.parameters or value.value}`" if value.value else "empty", theirs[value.line], told


def differing(kind: str) -> Iterator[tuple[str, str, str, str]]:
    """What differs on one runtime: the setting with its value, TorchServe's outcome, that of ours, and why."""
    outcomes = recorded()
    for value in VALUES:
        theirs = outcomes[value.line]
        if value.is_refused_by(kind) and theirs != ENDS:
            why = "TorchServe uses another value without a word" if theirs == "200" else "it would serve nobody"
            yield value.line, theirs, value.outcome(kind), why
        elif not value.is_refused_by(kind) and theirs != "200":
            yield value.line, theirs, value.outcome(kind), "what is empty, a blank, or without effect is not read"
