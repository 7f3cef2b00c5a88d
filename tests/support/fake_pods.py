"""The kubelet's part on a bare API server: a pod of the story's predictor, and what becomes of it."""

from __future__ import annotations

from typing import Any

from tests.support.namespace import Namespace


def make_pod(namespace: Namespace) -> None:
    """Pod torchserve-predictor-1."""
    labels = {
        "serving.kserve.io/inferenceservice": "torchserve",
        "component": "predictor",
        "app": "isvc.torchserve-predictor",
    }
    namespace.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "torchserve-predictor-1", "namespace": namespace.name, "labels": labels},
            "spec": {
                "initContainers": [{"name": "storage-initializer", "image": "i:1"}],
                "containers": [{"name": "kserve-container", "image": "i:1"}],
            },
        }
    )


def set_initializer(namespace: Namespace, state: dict[str, Any]) -> None:
    """Its storage-initializer is in this state."""
    status = {
        "name": "storage-initializer",
        "state": state,
        "ready": False,
        "restartCount": 0,
        "image": "",
        "imageID": "",
    }
    namespace.patch_status("pod", "torchserve-predictor-1", {"phase": "Pending", "initContainerStatuses": [status]})
