"""Services that are ready within seconds, and whose servers break as a test tells them to."""

from __future__ import annotations

from typing import Any

from hack.release.version import current_version
from tests.support.namespace import Namespace

IMAGE = f"localhost/isvc-operator/storage-initializer:{current_version()}"
# A server of the files of /state. What is written there as `do` is run once, and again when the container is restarted.
_PROGRAM = """
import http.server, os, pathlib, signal, threading, time
os.chdir("/state")
do = pathlib.Path("do")
if not do.exists():
    time.sleep(3)  # for as long, nobody serves when a pod is replaced
    pathlib.Path("ready").touch()
    pathlib.Path("live").touch()
server = http.server.HTTPServer(("", 8080), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever).start()
while not do.exists():
    time.sleep(0.1)
exec(do.read_text())
"""
_WRITE = (
    "import os, sys; print(sys.argv[1], file=open('/state/new', 'w'), flush=True); os.rename('/state/new', '/state/do')"
)


def a_probe(path: str) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": 8080}, "periodSeconds": 1, "failureThreshold": 1}


def a_breaking_service(name: str, container: dict[str, Any] | None = None, **predictor: Any) -> dict[str, Any]:
    """A service that needs no model; `container` and `predictor` are fields over those that it has."""
    server = {
        "name": "kserve-container",
        "image": IMAGE,
        "command": ["python", "-c", _PROGRAM],
        "readinessProbe": a_probe("/ready"),
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "256Mi"}},
        "volumeMounts": [{"name": "state", "mountPath": "/state"}],
        "ports": [{"containerPort": 8080}],
        **(container or {}),
    }
    state = {"name": "state", "emptyDir": {"sizeLimit": "16Mi"}}
    # The server is not the first process, which no signal of its own would end.
    known = {"containers": [server], "volumes": [state], "shareProcessNamespace": True}
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": name},
        "spec": {"predictor": {**known, **predictor}},
    }


def tell(namespace: Namespace, pod: str, code: str) -> None:
    """Let the server of a pod run this code."""
    namespace.kubectl("exec", pod, "--container=kserve-container", "--", "python", "-c", _WRITE, code)


def pods_of(namespace: Namespace, service: str) -> list[str]:
    """The names of the service's pods that run."""
    found = namespace.kubectl(
        "get", "pods", f"--selector=serving.kserve.io/inferenceservice={service}",
        "--field-selector=status.phase=Running", "--output=name",
    )  # fmt: skip
    return found.split()


def events_on(namespace: Namespace, service: str) -> list[tuple[str, ...]]:
    """Types and reasons of the Events on a service."""
    said = namespace.kubectl(
        "get", "events", f"--field-selector=involvedObject.kind=InferenceService,involvedObject.name={service}",
        "--output=jsonpath={range .items[*]}{.type} {.reason}{'\\n'}{end}",
    )  # fmt: skip
    return [tuple(line.split()) for line in said.splitlines()]
