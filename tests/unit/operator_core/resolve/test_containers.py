"""The user's container settings over the runtime's (docs/kserve.md), and image tags."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.resolve.containers import merge_container, merge_containers, with_tag

BASE: dict[str, Any] = {
    "name": "kserve-container",
    "image": "torchserve:1",
    "command": ["python"],
    "args": ["--model-dir=/mnt/models"],
    "env": [{"name": "HOME", "value": "/tmp"}, {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s"}}}],
    "ports": [{"name": "http", "containerPort": 8080}],
    "resources": {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"cpu": "1"}},
    "securityContext": {"runAsUser": 1000, "capabilities": {"drop": ["ALL"]}},
    "volumeMounts": [{"name": "scratch", "mountPath": "/tmp"}],
    "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 1},
    "lifecycle": {"preStop": {"sleep": {"seconds": 5}}},
}

MERGED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "args follow the runtime's": (
        {"args": ["--debug"]},
        {"args": ["--model-dir=/mnt/models", "--debug"]},
    ),
    "command and image are replaced": (
        {"command": ["serve"], "image": "mine:2"},
        {"command": ["serve"], "image": "mine:2"},
    ),
    "env is merged by name, in the runtime's order": (
        {"env": [{"name": "NEW", "value": "1"}, {"name": "HOME", "value": "/home"}]},
        {"env": [{"name": "HOME", "value": "/home"}, BASE["env"][1], {"name": "NEW", "value": "1"}]},
    ),
    "a value takes the place of a reference": (
        {"env": [{"name": "TOKEN", "value": "plain"}]},
        {"env": [BASE["env"][0], {"name": "TOKEN", "value": "plain"}]},
    ),
    "ports are merged by number": (
        {"ports": [{"name": "web", "containerPort": 8080}, {"name": "grpc", "containerPort": 9000}]},
        {"ports": [{"name": "web", "containerPort": 8080}, {"name": "grpc", "containerPort": 9000}]},
    ),
    "volume mounts are merged by path": (
        {"volumeMounts": [{"name": "big", "mountPath": "/tmp"}, {"name": "cache", "mountPath": "/cache"}]},
        {"volumeMounts": [{"name": "big", "mountPath": "/tmp"}, {"name": "cache", "mountPath": "/cache"}]},
    ),
    "resources are merged key by key": (
        {"resources": {"requests": {"cpu": "2"}, "limits": {"nvidia.com/gpu": "1"}}},
        {
            "resources": {
                "requests": {"cpu": "2", "memory": "2Gi"},
                "limits": {"cpu": "1", "nvidia.com/gpu": "1"},
            }
        },
    ),
    "the security context is merged key by key": (
        {"securityContext": {"runAsUser": 2000, "capabilities": {"add": ["NET_BIND_SERVICE"]}}},
        {
            "securityContext": {
                "runAsUser": 2000,
                "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
            }
        },
    ),
    "a probe's times are merged with its check": (
        {"readinessProbe": {"failureThreshold": 60}},
        {"readinessProbe": {**BASE["readinessProbe"], "failureThreshold": 60}},
    ),
    "a probe's check is merged with one of its kind": (
        {"readinessProbe": {"httpGet": {"path": "/v2/health/ready"}}},
        {"readinessProbe": {"httpGet": {"path": "/v2/health/ready", "port": 8080}, "periodSeconds": 1}},
    ),
    "a probe's check takes the place of one of another kind, for two of them are refused": (
        {"readinessProbe": {"tcpSocket": {"port": 8080}}},
        {"readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1}},
    ),
    "a hook at the start leaves the one before the end": (
        {"lifecycle": {"postStart": {"exec": {"command": ["warm"]}}}},
        {"lifecycle": {"preStop": {"sleep": {"seconds": 5}}, "postStart": {"exec": {"command": ["warm"]}}}},
    ),
    "a hook takes the place of one of another kind": (
        {"lifecycle": {"preStop": {"exec": {"command": ["drain"]}}}},
        {"lifecycle": {"preStop": {"exec": {"command": ["drain"]}}}},
    ),
    "what the runtime does not set is added": (
        {"envFrom": [{"secretRef": {"name": "s"}}], "workingDir": "/srv"},
        {"envFrom": [{"secretRef": {"name": "s"}}], "workingDir": "/srv"},
    ),
    "the name stays the runtime's": ({"name": "mine"}, {}),
    "nothing asked for changes nothing": ({}, {}),
}


@pytest.mark.parametrize(("overlay", "changed"), MERGED.values(), ids=MERGED.keys())
def test_merging_containers(overlay: dict[str, Any], changed: dict[str, Any]) -> None:
    assert merge_container(BASE, overlay) == {**BASE, **changed}


def test_a_runtime_that_sets_nothing_leaves_all_to_the_user() -> None:
    overlay = {"args": ["--a"], "env": [{"name": "A", "value": "1"}], "resources": {"limits": {"cpu": "1"}}}

    assert merge_container({"name": "kserve-container"}, overlay) == {"name": "kserve-container", **overlay}


def test_merging_changes_neither_of_the_two() -> None:
    base, overlay = {"name": "c", "resources": {"limits": {"cpu": "1"}}}, {"resources": {"limits": {"cpu": "2"}}}

    merge_container(base, overlay)

    assert base == {"name": "c", "resources": {"limits": {"cpu": "1"}}}
    assert overlay == {"resources": {"limits": {"cpu": "2"}}}


def test_containers_of_the_same_name_are_merged_and_the_others_follow() -> None:
    base = [{"name": "logs", "image": "l", "args": ["--a"]}, {"name": "proxy", "image": "p"}]
    overlay = [{"name": "own", "image": "o"}, {"name": "logs", "args": ["--b"]}]

    assert merge_containers(base, overlay) == [
        {"name": "logs", "image": "l", "args": ["--a", "--b"]},
        {"name": "proxy", "image": "p"},
        {"name": "own", "image": "o"},
    ]


@pytest.mark.parametrize(
    ("image", "tagged"),
    [
        ("torchserve", "torchserve:9"),
        ("torchserve:1", "torchserve:9"),
        ("pytorch/torchserve-kfs:0.9.0", "pytorch/torchserve-kfs:9"),
        ("localhost:5000/team/torchserve", "localhost:5000/team/torchserve:9"),
        ("localhost:5000/team/torchserve:1", "localhost:5000/team/torchserve:9"),
        ("team/torchserve@sha256:abc", "team/torchserve@sha256:abc"),
        ("team/torchserve:1@sha256:abc", "team/torchserve:1@sha256:abc"),
    ],
)
def test_a_tag_replaces_another_but_never_a_digest(image: str, tagged: str) -> None:
    assert with_tag(image, "9") == tagged
