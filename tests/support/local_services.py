"""Services for tests of the laptop path: YAML whose runtime is ``fake_runtime.py``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from isvc.run.documents import Documents, YamlText, parse_documents


class Silent:
    """An output of a run that prints nothing."""

    is_verbose, is_quiet = False, True

    def log(self, name: str, line: str) -> None: ...

    def detail(self, text: str) -> None: ...

    def note(self, text: str) -> None: ...

    def say(self, text: str) -> None: ...

    def show(self, text: str) -> None: ...

    def when_lost(self, call: Callable[[], object]) -> None: ...

    def show_service(self, service: str, addresses: Sequence[tuple[str, str]], lines: Sequence[str]) -> None: ...


FAKE_RUNTIME = Path(__file__).with_name("fake_runtime.py")


def runtime(name: str = "fake", **container: Any) -> dict[str, Any]:
    """A ClusterServingRuntime for the model format ``fake``; ``container`` has more fields of its container."""
    server = {
        "name": "kserve-container",
        "image": "unused",
        "command": ["python", str(FAKE_RUNTIME)],
        "args": ["--http-port=8080", "--model-dir=/mnt/models"],
        "ports": [{"containerPort": 8080}],
        "readinessProbe": {"httpGet": {"path": "/v2/health/ready", "port": 8080}},
    }
    return {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "ClusterServingRuntime",
        "metadata": {"name": name},
        "spec": {
            "supportedModelFormats": [{"name": "fake", "autoSelect": True}],
            "containers": [{**server, **container}],
        },
    }


def service(name: str = "first", env: Mapping[str, str] | None = None, uri: str = "pvc://models") -> dict[str, Any]:
    """An InferenceService of the format ``fake``."""
    variables = [{"name": key, "value": value} for key, value in (env or {}).items()]
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": name},
        "spec": {"predictor": {"model": {"modelFormat": {"name": "fake"}, "storageUri": uri, "env": variables}}},
    }


def write_yaml(path: Path, *documents: Mapping[str, Any]) -> Path:
    """Write the documents to one file."""
    path.write_text(yaml.safe_dump_all(documents))
    return path


def parsed(*documents: Mapping[str, Any]) -> Documents:
    """What ``isvc`` reads from a file with these documents."""
    return parse_documents([YamlText("my.yaml", yaml.safe_dump_all(documents))], "default")
