"""Ports that lead into a cluster, and for its pods to a server that listens on this machine's loopback only."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import socketserver
import subprocess
import threading
from collections.abc import Iterator

from tests.support.cluster import RealCluster

_CHUNK = 65536


def node_address(cluster: RealCluster) -> str:
    """The address of the cluster's first node."""
    (node, *_) = json.loads(cluster.kubectl("get", "nodes", "--output=json"))["items"]
    return next(item["address"] for item in node["status"]["addresses"] if item["type"] == "InternalIP")


def address_seen_from(host: str) -> str:
    """This machine's address on its way to ``host``, and so the one that answers from there can come back to."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))
        return str(probe.getsockname()[0])


@contextlib.contextmanager
def port_forwarded(cluster: RealCluster, namespace: str, target: str, port: int) -> Iterator[str]:
    """An address of this machine that leads to a port of a Service, or of a Deployment's pod."""
    options = (f"--kubeconfig={cluster.kubeconfig}", f"--namespace={namespace}")
    command = [cluster.binary, *options, "port-forward", target, f":{port}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            found = re.search(r"127\.0\.0\.1:\d+", line)
            assert found, f"kubectl port-forward said {line!r}"
            yield found[0]
        finally:
            process.kill()


@contextlib.contextmanager
def forwarded(address: str, port: int) -> Iterator[int]:
    """A port of ``address`` that leads to ``port`` on loopback."""
    with _Forwarder((address, 0), _Connection) as server:
        server.port = port
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            serving.join()


class _Forwarder(socketserver.ThreadingTCPServer):
    daemon_threads = True  # connections end with the server behind
    port: int


class _Connection(socketserver.BaseRequestHandler):
    server: _Forwarder
    request: socket.socket

    def handle(self) -> None:
        with socket.create_connection(("127.0.0.1", self.server.port)) as upstream:
            back = threading.Thread(target=_pass_on, args=(upstream, self.request))
            back.start()
            _pass_on(self.request, upstream)
            back.join()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    """Until its end, which is told; the other direction ends by itself."""
    with contextlib.suppress(OSError):
        while chunk := source.recv(_CHUNK):
            target.sendall(chunk)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
