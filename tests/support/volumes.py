"""Claims on a folder of the node, filled by a pod as users fill theirs.

The loader runs as root, which a restricted namespace forbids: it works in a namespace of its own, on a second claim
to the same folder.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support.namespace import Namespace

LOADER = Path(__file__).parents[2] / "examples" / "bert" / "loader.yaml"
POD = "leeway-loader"


@dataclass(frozen=True)
class Volume:
    """A claim in ``namespace``."""

    namespace: Namespace
    claim: str

    @property
    def path(self) -> str:
        """The node's folder."""
        return f"/var/lib/isvc-operator/e2e/{self.namespace.name}-{self.claim}"

    @contextlib.contextmanager
    def filled_from(self, folder: Path) -> Iterator[Volume]:
        """The claim with a copy of ``folder``; the node's folder is emptied at the end."""
        cluster = self.namespace.server
        loading = Namespace(cluster, f"{self.namespace.name}-load-{self.claim}")
        cluster.kubectl("create", "namespace", loading.name)
        self.namespace.apply(*claimed(self.namespace.name, self.claim, self.path))
        loading.apply(*claimed(loading.name, "leeway", self.path))
        loading.apply(loader_pod(loading.name))
        loading.kubectl("wait", "--for=condition=Ready", f"pod/{POD}", "--timeout=120s")
        loading.kubectl("cp", f"{folder}/.", f"{POD}:/leeway")
        try:
            yield self
        finally:
            loading.kubectl("exec", POD, "--", "sh", "-c", "rm -rf /leeway/*")
            cluster.kubectl("delete", "namespace", loading.name, "--wait=false")
            cluster.kubectl("delete", "pv", _volume_name(loading.name, "leeway"), "--wait=false")
            cluster.kubectl("delete", "pv", _volume_name(self.namespace.name, self.claim), "--wait=false")


def loader_pod(namespace: str) -> dict[str, Any]:
    """The sample's loader pod."""
    pod: dict[str, Any] = yaml.safe_load(LOADER.read_text())
    pod["metadata"]["namespace"] = namespace
    return pod


def _volume_name(namespace: str, claim: str) -> str:
    return f"{namespace}-{claim}"


def claimed(namespace: str, claim: str, path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A volume on a folder of the node, and the claim on it."""
    name, size = _volume_name(namespace, claim), {"storage": "1Gi"}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": size,
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "hostPath": {"path": path, "type": "DirectoryOrCreate"},
        },
    }
    bound = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": claim, "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "volumeName": name,
            "resources": {"requests": size},
        },
    }
    return volume, bound
