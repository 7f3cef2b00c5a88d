"""The operator of the last release in place of the one in a cluster, which takes over from it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.cluster import RealCluster
from tests.support.last_release import code_of_last_release
from tests.support.operator_process import STOP_TIMEOUT

HOME = "isvc-system"
# With it, a predictor has another template than in version 0.1.0: its grace period follows from it.
CHANGED = {"timeout": 30}


@contextlib.contextmanager
def last_release_operates(cluster: RealCluster, folder: Path) -> Iterator[None]:
    """The operator of the last release, on this machine, with the cluster's configuration.

    At the end of the block it is stopped, and the cluster's own takes over.
    """
    code = code_of_last_release()
    _scale(cluster, 0)
    try:
        command = [sys.executable, "-m", "isvc_operator", f"--config-dir={_configuration(cluster, folder)}"]
        env = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "PYTHONPATH": str(code)}
        with (folder / "last-release.log").open("wb") as log:
            process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(STOP_TIMEOUT)
    finally:
        _scale(cluster, 1)


def _scale(cluster: RealCluster, replicas: int) -> None:
    cluster.kubectl("scale", f"--namespace={HOME}", "deployment/isvc-operator", f"--replicas={replicas}")
    cluster.kubectl("rollout", "status", f"--namespace={HOME}", "deployment/isvc-operator", "--timeout=120s")
    if not replicas:
        selector = "--selector=app.kubernetes.io/name=isvc-operator"
        cluster.kubectl("wait", f"--namespace={HOME}", "pods", selector, "--for=delete", "--timeout=120s")


def _configuration(cluster: RealCluster, folder: Path) -> Path:
    """The keys of the ConfigMap as files, as the kubelet mounts them."""
    found = cluster.kubectl("get", "configmap", "inferenceservice-config", f"--namespace={HOME}", "--output=json")
    keys = folder / "inferenceservice-config"
    keys.mkdir()
    for name, text in json.loads(found)["data"].items():
        (keys / name).write_text(text)
    return keys
