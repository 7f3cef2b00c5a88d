"""A pod's spec is refused as by an API server, or can be planned, whatever is in it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from isvc.run.builtin_admission import builtin_refusals
from isvc.run.container import Machine, Probe
from isvc.run.errors import UnusableInput
from isvc.run.pod import PodPlan, plan_pod
from isvc_operator.resolve.storage.plan import ObjectReference

SECRET = {"kind": "Secret", "metadata": {"name": "keys"}, "data": {"token": "eA=="}}
CONFIG = {"kind": "ConfigMap", "metadata": {"name": "words"}, "data": {"a": "b"}}
WHOLE: dict[str, Any] = {
    "containers": [
        {
            "name": "kserve-container",
            "image": "server:1",
            "command": ["python", "server.py"],
            "args": ["--port=8080"],
            "workingDir": "/data",
            "ports": [{"name": "http", "containerPort": 8080}],
            "env": [
                {"name": "A", "value": "b"},
                {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}},
                {"name": "WORD", "valueFrom": {"configMapKeyRef": {"name": "words", "key": "a"}}},
            ],
            "volumeMounts": [
                {"name": "scratch", "mountPath": "/data", "subPath": "part"},
                {"name": "models", "mountPath": "/models"},
                {"name": "keys", "mountPath": "/keys"},
                {"name": "words", "mountPath": "/words"},
            ],
            "readinessProbe": {
                "httpGet": {"port": "http", "path": "/", "httpHeaders": [{"name": "X", "value": "y"}]},
                "initialDelaySeconds": 1,
                "periodSeconds": 2,
            },
            "livenessProbe": {"exec": {"command": ["true"]}, "failureThreshold": 3},
            "startupProbe": {"tcpSocket": {"port": 8080}},
        }
    ],
    "initContainers": [
        {"name": "first", "image": "first:1", "command": ["true"], "livenessProbe": {"grpc": {"port": 8081}}}
    ],
    "volumes": [
        {"name": "scratch", "emptyDir": {}},
        {"name": "models", "persistentVolumeClaim": {"claimName": "models"}},
        {"name": "keys", "secret": {"secretName": "keys"}},
        {"name": "words", "configMap": {"name": "words"}},
    ],
    "terminationGracePeriodSeconds": 5,
}
OTHERS: tuple[Any, ...] = (None, "", "nothing", "/", "../../x", -1, 0, 1.5, 70000, True, [], ["x"], [[]], {}, {"x": 1})


def plan(spec: Any) -> PodPlan:
    labels = {"component": "predictor", "serving.kserve.io/inferenceservice": "first"}
    ports = iter(range(40001, 50000))
    machine = Machine(
        folder=Path("/run/0"),
        claims={"models": Path("/claims/models")},
        environment={},
        python="/venv/bin/python",
        free_port=lambda: next(ports),
        objects={ObjectReference("Secret", "keys"): SECRET, ObjectReference("ConfigMap", "words"): CONFIG},
    )
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "first-predictor"},
        "spec": {
            "selector": {"matchLabels": labels},
            "strategy": {"type": "RollingUpdate"},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
    if refused := list(builtin_refusals(deployment)):
        raise UnusableInput("; ".join(map(str, refused)))
    return plan_pod(deployment, machine)


def container(**fields: Any) -> dict[str, Any]:
    return {**WHOLE, "containers": [{**WHOLE["containers"][0], **fields}]}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each field and item."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


def changed(path: tuple[Any, ...], *values: Any) -> Any:
    """The whole spec with another value at a place, or without what was there."""
    spec = copy.deepcopy(WHOLE)
    *way, last = path
    target: Any = spec
    for key in way:
        target = target[key]
    if values:
        target[last] = values[0]
    else:
        del target[last]
    return spec


def test_the_whole_spec_can_be_run() -> None:
    server = plan(WHOLE).servers[0]

    get = {"port": 40001, "path": "/", "httpHeaders": [{"name": "X", "value": "y"}]}
    assert server.readiness == Probe({"httpGet": get}, initial_delay=1, period=2)
    assert server.liveness == Probe({"exec": {"command": ("true",)}})


def test_nothing_that_is_missing_or_of_another_type_ends_in_another_error() -> None:
    """Each field and item in turn, without it and with each of the other values."""
    for path in places(WHOLE):
        for spec in (changed(path), *(changed(path, value) for value in OTHERS)):
            is_planned_or_refused(spec)


def is_planned_or_refused(spec: Any) -> None:
    try:
        pod = plan(spec)
    except UnusableInput:
        return
    inside = [*pod.folders, *pod.files, *pod.links, *(process.termination_log for process in pod.servers)]
    assert all(path.is_relative_to(pod.folder) and ".." not in path.parts for path in inside)
    assert all(isinstance(word, str) for process in pod.servers for word in process.command)


def test_a_probe_of_a_port_that_has_no_such_name_is_refused() -> None:
    probe = {"httpGet": {"port": "web"}}

    with pytest.raises(UnusableInput, match="asks port 'web', which the container does not name"):
        plan(container(readinessProbe=probe))


@pytest.mark.parametrize("key", ["../../../evil", "..", ".", "a/b", "", "..x", 1, "x" * 254])
@pytest.mark.parametrize("kind", ["Secret", "ConfigMap"])
def test_a_key_that_would_be_another_path_is_refused(key: Any, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SECRET if kind == "Secret" else CONFIG, "data", {key: "eA=="})

    with pytest.raises(UnusableInput, match=rf"{kind} \w+: data has the key .*; a key may only have"):
        plan(WHOLE)
