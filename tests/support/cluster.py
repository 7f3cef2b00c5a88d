"""The cluster of the end-to-end tests, by the tools of its users: kubectl and curl."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HTTP = "http://127.0.0.1:8080"
HTTPS_PORT = 8443
_KUBECTL_TIMEOUT = 180.0  # seconds


@dataclass(frozen=True)
class RealCluster:
    """A running cluster with the operator in it."""

    kubeconfig: Path
    binary: str = "kubectl"

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Standard output of kubectl; AssertionError with its words where it fails."""
        command = [self.binary, f"--kubeconfig={self.kubeconfig}", *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=_KUBECTL_TIMEOUT)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def apply(self, namespace: str, manifest: dict[str, Any]) -> dict[str, Any]:
        """The object as it is stored, once it is applied."""
        options = (f"--namespace={namespace}", "--filename=-", "--output=json")
        applied: dict[str, Any] = json.loads(self.kubectl("apply", *options, stdin=json.dumps(manifest)))
        return applied

    def find(self, namespace: str, kind: str, name: str) -> dict[str, Any] | None:
        """The object, if there is one."""
        items = json.loads(self.kubectl("get", kind, f"--namespace={namespace}", "--output=json"))["items"]
        return next((item for item in items if item["metadata"]["name"] == name), None)


@dataclass(frozen=True)
class Answer:
    """What curl got: the status code and the body."""

    status: int
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


def curl(*arguments: str, cwd: Path | None = None) -> Answer:
    """Run curl as a user types it, its body and status code taken apart."""
    command = ["curl", "--silent", "--show-error", "--max-time", "60", "--write-out", "\n%{http_code}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    text, _, status = done.stdout.rpartition("\n")
    return Answer(int(status), text)


def rounded(value: Any) -> Any:
    """Numbers that differ in their last digits are the same: sums depend on the number of threads."""
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, Mapping):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value
