"""The programs of the bare cluster's node, which is this host."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support.cluster import RealCluster


def is_bare(kubeconfig: str | None) -> bool:
    """Whether the cluster's programs run on this host."""
    return kubeconfig is not None and _pid_file(Path(kubeconfig), "kubelet").exists()


@contextlib.contextmanager
def paused(cluster: RealCluster, program: str) -> Iterator[None]:
    """One of the programs does nothing for a while, as on a host that hangs."""
    pid = int(_pid_file(cluster.kubeconfig, program).read_text().splitlines()[0])
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def node_images(cluster: RealCluster, *arguments: str) -> None:
    """Run `ctr images` for the images that the kubelet sees."""
    socket = cluster.kubeconfig.parent / "containerd.sock"
    command = ["ctr", f"--address={socket}", "--namespace=k8s.io", "images", *arguments]
    subprocess.run(command, check=True, capture_output=True)


def _pid_file(kubeconfig: Path, program: str) -> Path:
    return kubeconfig.parent / "run" / program
