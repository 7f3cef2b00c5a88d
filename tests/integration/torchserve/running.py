"""The adapter as a process, as its image starts it."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from tests.support.import_path import import_path
from tests.support.ports import free_port
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[3]
_SOURCES = (ROOT, ROOT / "runtime-images/torchserve/src")
_START_S = 240


@dataclass(frozen=True)
class Answer:
    status: int
    document: Any
    headers: Mapping[str, str]


class Adapter:
    """One adapter on a free port with everything it writes under one folder. Killed on leaving the block.

    Its workers have torch only if they are told to.
    """

    management_port: int

    def __init__(self, model_dir: Path, *flags: str, has_torch: bool = False, **environment: str) -> None:
        self.model_dir = model_dir
        self._flags = flags
        self._path = import_path(*_SOURCES, has_torch=has_torch)
        self._environment = environment

    def __enter__(self) -> Self:
        # Short: the path of a unix socket is built on it.
        self.folder = Path(tempfile.mkdtemp(prefix="adapter-"))
        self.port, self.grpc_port = free_port(), free_port()
        for name in ("home", "cwd", "tmp", "work"):
            (self.folder / name).mkdir()
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "torchserve_adapter", *self._flags],
                cwd=self.folder / "cwd",
                stdout=log,
                stderr=subprocess.STDOUT,
                env={
                    "PATH": os.environ["PATH"],
                    "PYTHONPATH": self._path,
                    "HOME": str(self.folder / "home"),
                    "TMPDIR": str(self.folder / "tmp"),
                    "MODEL_DIR": str(self.model_dir),
                    "HTTP_PORT": str(self.port),
                    "GRPC_PORT": str(self.grpc_port),
                    "WORK_DIR": str(self.folder / "work"),
                    "TERMINATION_LOG": str(self.folder / "termination-log"),
                    **self._environment,
                },
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            # TorchServe takes seconds to stop; how the adapter ends is tested where it is told to.
            running = self._children()
            self.process.kill()
            for process in running:
                process.kill()
            wait_ended(running)
        self.process.wait()
        if error:
            sys.stderr.write(self.log)
        shutil.rmtree(self.folder)

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    @property
    def termination_message(self) -> str:
        return (self.folder / "termination-log").read_text()

    def wait_ready(self) -> Self:
        self.wait_until(lambda: self.get("/v2/health/ready").status == 200)
        return self

    def wait_exit(self) -> int:
        return self.process.wait(_START_S)

    def wait_until(self, holds: Any) -> None:
        deadline = time.monotonic() + _START_S
        while not _holds(holds):
            assert self.process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.05)

    def get(self, path: str) -> Answer:
        return self.request("GET", path)

    def predict(self, model: str, document: object) -> Answer:
        return self.request("POST", f"/v1/models/{model}:predict", json.dumps(document).encode())

    def request(
        self, method: str, path: str, body: bytes | None = None, port: int | None = None, **headers: str
    ) -> Answer:
        """As `curl -T`: no header that was not asked for."""
        connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=_START_S)
        try:
            connection.request(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
            answer = connection.getresponse()
            content = answer.read()
            is_json = answer.headers["content-type"] == "application/json"
            document = json.loads(content) if is_json else content.decode()
            return Answer(answer.status, document, {k.lower(): v for k, v in answer.headers.items()})
        finally:
            connection.close()

    def torchserve(self) -> psutil.Process:
        return next(p for p in self._children() if "org.pytorch.serve.ModelServer" in p.cmdline())

    def workers(self) -> list[psutil.Process]:
        return [p for p in self._children() if any("model_service_worker" in part for part in p.cmdline())]

    def _children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)


def wait_ended(processes: Iterable[psutil.Process]) -> None:
    """Until none does anything any more, be it that nobody has collected it yet."""
    for process in processes:
        eventually(lambda process=process: _has_ended(process), f"{process} ends")


def _has_ended(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def _holds(condition: Any) -> bool:
    try:
        return bool(condition())
    except (ConnectionError, http.client.HTTPException):
        return False


def model_dir(folder: Path, config: str, store: str = "model-store") -> Path:
    """A folder as the storage initializer leaves it."""
    (folder / "config").mkdir(parents=True)
    (folder / "config" / "config.properties").write_text(config)
    (folder / store).mkdir()
    return folder
