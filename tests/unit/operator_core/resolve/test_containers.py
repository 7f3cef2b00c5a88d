"""The user's container settings over the runtime's (contract §3.3), and image tags (§3.5)."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.resolve.containers import merge_container, with_tag

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
    "a probe is replaced, for two kinds of check in one probe are refused": (
        {"readinessProbe": {"tcpSocket": {"port": 8080}}},
        {"readinessProbe": {"tcpSocket": {"port": 8080}}},
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
