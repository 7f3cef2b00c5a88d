"""The operator as its users run it: a process with a kubeconfig."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.support.apiserver import ApiServer
from tests.support.waiting import eventually

STOP_TIMEOUT = 20.0  # seconds
_RESPONSE_SECONDS = 30.0

# The operator's own requests and those of its watches, by user agent.
OPERATOR, WATCHES = "isvc-operator", "isvc-watches"


@contextlib.contextmanager
def operator(
    server: ApiServer, log: Path, *flags: str, code: Path | None = None, limit: Callable[[], None] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A running operator whose watches are up; it is stopped, by SIGTERM, at the end of the block.

    ``code`` is the folder of another version's package, ``limit`` what limits the process that calls it.
    """
    started = server.position()
    env = {**os.environ, "KUBECONFIG": str(server.kubeconfig), **({"PYTHONPATH": str(code)} if code else {})}
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "isvc_operator", *flags], env=env, stdout=output, stderr=output, preexec_fn=limit
        )
    try:
        agent = "" if code else WATCHES  # another version may have another name
        eventually(lambda: _watches_pods(server, agent, started), f"the operator watches; its log is {log}")
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(STOP_TIMEOUT)


def got(port: int, path: str) -> tuple[int, str]:
    """The status and the text of the response of an operator's health port; raises OSError if there is none."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=_RESPONSE_SECONDS) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def is_ready(port: int) -> bool:
    try:
        return got(port, "/readyz") == (200, "ok\n")
    except OSError:
        return False


def metrics_of(port: int) -> str:
    status, text = got(port, "/metrics")
    assert status == 200, text
    return text


def in_pod(server: ApiServer, account: Path) -> dict[str, str]:
    """The environment of `tests.support.operator_in_pod`, whose service account is written to the folder `account`."""
    (account / "token").write_text(server.token)
    shutil.copy(server.ca_file, account / "ca.crt")
    host, _, port = server.base_url.removeprefix("https://").partition(":")
    return {"KUBECONFIG": "", "KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}


def _watches_pods(server: ApiServer, agent: str, since: int) -> bool:
    calls = server.calls(agent, since)
    return {"pods", "inferenceservices", "deployments"} <= {call.resource for call in calls if call.verb == "watch"}
