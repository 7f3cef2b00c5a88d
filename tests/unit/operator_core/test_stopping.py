"""The operator ends when it is told to, also before it watches anything."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.process
def test_a_stop_while_the_api_server_does_not_respond_yet_ends_it(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{silent.getsockname()[1]}"}}
        context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
        users = [{"name": "u", "user": {"token": "t"}}]
        kubeconfig.write_text(
            json.dumps({"clusters": [cluster], "contexts": [context], "users": users, "current-context": "c"})
        )
        command = [sys.executable, "-m", "isvc_operator", f"--kubeconfig={kubeconfig}", "--namespace=models"]
        with (tmp_path / "log").open("wb") as log:
            operator = subprocess.Popen(command, stdout=log, stderr=log)
        silent.settimeout(60)
        connection, _ = silent.accept()
        with connection:
            operator.send_signal(signal.SIGTERM)
            code = operator.wait(60)

    assert code == 0, (tmp_path / "log").read_text()
