"""How a server that never came to serve ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.ports import free_port
from tests.support.runtimes import ROOT
from tests.support.waiting import eventually
from transformer_sdk.kserve.constants.constants import DEFAULT_GRPC_PORT

# Its workers get as far as the models and no further.
PROGRAM = """
import os, time
from transformer_sdk.kserve import Model, ModelRepository, ModelServer

class Slow(ModelRepository):
    def get_models(self):
        if os.getpid() != PARENT:
            print("a worker", flush=True)
            time.sleep(120)
        return super().get_models()

class Ready(Model):
    ready = True

PARENT = os.getpid()
if __name__ == "__main__":
    ModelServer(registered_models=Slow() if SLOW else None).start([Ready("mnist")])
"""


def started(folder: Path, *flags: str, slow: bool = False) -> tuple[subprocess.Popen[bytes], Path]:
    log = folder / "log"
    program = f"SLOW = {slow}\n{PROGRAM}"
    with log.open("wb") as file:
        # Its default port for gRPC is one that TorchServe takes in other tests.
        ports = (f"--http_port={free_port()}", f"--grpc_port={free_port()}")
        command = [sys.executable, "-Walways", "-c", program, *ports, *flags]
        return subprocess.Popen(command, cwd=ROOT, stdout=file, stderr=file), log


@pytest.mark.parametrize("flag", ["--http_port", "--grpc_port"])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_port_that_is_taken_is_its_only_error(tmp_path: Path, flag: str, workers: int) -> None:
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        process, log = started(tmp_path, f"{flag}={port}", f"--workers={workers}")
        code = process.wait(timeout=60)

    said = log.read_text()
    assert code == 1
    assert (
        f"Port {port} cannot be opened: Address already in use; stop what uses it or choose another with {flag}."
        in said
    )
    assert not [words for words in ("Traceback", "never awaited") if words in said]


def test_the_address_and_grpcs_port_of_the_environment_are_the_only_ones_that_are_served_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    http_port, grpc_port = free_port(), free_port()
    monkeypatch.setenv("HTTP_HOST", "127.0.0.2")
    monkeypatch.setenv("GRPC_PORT", str(grpc_port))
    process, log = started(tmp_path, f"--http_port={http_port}", f"--grpc_port={DEFAULT_GRPC_PORT}")
    try:
        eventually(lambda: _listens("127.0.0.2", grpc_port), "it serves", 60, log.read_text)
        heard = {
            (host, port)
            for host in ("127.0.0.1", "127.0.0.2")
            for port in (http_port, grpc_port)
            if _listens(host, port)
        }
    finally:
        process.kill()
        process.wait()

    assert heard == {("127.0.0.2", http_port), ("127.0.0.2", grpc_port)}


def _listens(host: str, port: int) -> bool:
    with socket.socket() as visitor:
        return visitor.connect_ex((host, port)) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_workers_that_are_stopped_before_they_serve_end_in_order(tmp_path: Path, number: signal.Signals) -> None:
    process, log = started(tmp_path, "--workers=2", "--enable_grpc=false", slow=True)
    try:
        eventually(lambda: log.read_text().count("a worker") == 2, "both workers are there", 60, log.read_text)
        process.send_signal(number)
        code = process.wait(timeout=60)
    finally:
        process.kill()

    assert (code, "stopping the others" in log.read_text()) == (0, False), log.read_text()


HANGING = """
import threading
from transformer_sdk.kserve import Model, ModelServer

class Hanging(Model):
    ready = True

    def predict(self, payload, headers):
        print("it hangs", flush=True)
        threading.Event().wait()

if __name__ == "__main__":
    ModelServer().start([Hanging("m")])
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_a_sync_hook_that_hangs_does_not_keep_the_process(tmp_path: Path, workers: int) -> None:
    port, log = free_port(), tmp_path / "log"
    flags = (f"--http_port={port}", f"--workers={workers}", "--enable_grpc=false")
    with log.open("wb") as file:
        command = [sys.executable, "-c", HANGING, *flags]
        process = subprocess.Popen(command, cwd=ROOT, stdout=file, stderr=file, env={**os.environ, "GRACE_PERIOD": "1"})
    try:
        eventually(lambda: _listens("127.0.0.1", port), "it serves", 60, log.read_text)
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"POST /v1/models/m:predict HTTP/1.1\r\nContent-Length: 16\r\n\r\n" + b'{"instances":[]}')
            eventually(lambda: "it hangs" in log.read_text(), "the hook runs", 60, log.read_text)
        process.send_signal(signal.SIGTERM)
        code = process.wait(timeout=60)
    finally:
        process.kill()

    assert code == 0, log.read_text()
    assert "a sync hook still runs: the process ends without it" in log.read_text()
