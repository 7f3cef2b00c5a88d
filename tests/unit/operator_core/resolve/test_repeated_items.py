"""Lists in which an item occurs twice are refused where the user wrote them; nothing is dropped by a merge."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.errors import InvalidSpec
from tests.support.builders import a_resolved, a_runtime, a_service

SERVER = {"name": "kserve-container", "image": "x"}
TWO_PORTS = [{"containerPort": 8080}, {"containerPort": 8080, "protocol": "TCP", "name": "http1"}]
TWO_VOLUMES = [{"name": "data", "emptyDir": {}}, {"name": "data", "configMap": {"name": "other"}}]

SERVICES: dict[str, tuple[dict[str, Any], str]] = {
    "ports of the model": (
        {"model": {"ports": TWO_PORTS}},
        "spec.predictor.model.ports has 2 items with containerPort 8080; keep one of them",
    ),
    "mounts of an older key": (
        {
            "model": None,
            "predictor": {
                "pytorch": {"volumeMounts": [{"name": "a", "mountPath": "/m"}, {"name": "b", "mountPath": "/m"}]}
            },
        },
        "spec.predictor.pytorch.volumeMounts has 2 items with mountPath /m; keep one of them",
    ),
    "volumes of the pod": (
        {"predictor": {"volumes": TWO_VOLUMES}},
        "spec.predictor.volumes has 2 items with name data; keep one of them",
    ),
    "addresses in the pod's hosts file": (
        {"predictor": {"hostAliases": [{"ip": "10.0.0.1", "hostnames": [name]} for name in ("a", "b")]}},
        "spec.predictor.hostAliases has 2 items with ip 10.0.0.1; keep one of them",
    ),
    "ports of a container": (
        {"model": None, "predictor": {"containers": [{**SERVER, "ports": TWO_PORTS}]}},
        "spec.predictor.containers[0].ports has 2 items with containerPort 8080; keep one of them",
    ),
    "containers": (
        {"predictor": {"containers": [{"name": "side", "image": "x"}, {"name": "side", "image": "y"}]}},
        "spec.predictor.containers has 2 items with name side; keep one of them",
    ),
    "init containers of a transformer": (
        {"spec": {"transformer": {"containers": [SERVER], "initContainers": [SERVER, SERVER]}}},
        "spec.transformer.initContainers has 2 items with name kserve-container; keep one of them",
    ),
}


@pytest.mark.parametrize(("fields", "message"), SERVICES.values(), ids=SERVICES.keys())
def test_a_repeated_item_of_a_service_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        a_resolved(a_service(**fields))

    assert str(caught.value) == message


def test_a_repeated_item_of_a_runtime_is_refused_with_the_runtimes_name() -> None:
    with pytest.raises(InvalidSpec) as caught:
        a_resolved(runtime=a_runtime(container={"ports": TWO_PORTS}))

    assert str(caught.value) == (
        "ClusterServingRuntime kserve-torchserve: spec.containers[0].ports has 2 items with containerPort 8080; "
        "keep one of them"
    )


def test_ports_of_one_number_and_two_protocols_are_both_kept() -> None:
    ports = [{"containerPort": 9000, "name": "a"}, {"containerPort": 9000, "protocol": "UDP", "name": "b"}]

    resolved = a_resolved(a_service(model={"ports": ports}))

    assert resolved.predictor.server["ports"] == ports


def test_two_ports_of_one_name_are_refused_also_if_one_is_the_runtimes() -> None:
    runtime = a_runtime(container={"ports": [{"containerPort": 8080, "name": "http1"}]})

    with pytest.raises(InvalidSpec) as caught:
        a_resolved(a_service(model={"ports": [{"containerPort": 9000, "name": "http1"}]}), runtime)

    assert str(caught.value) == (
        "container kserve-container of the predictor has several ports named http1: 8080, 9000; give each a name of "
        "its own, the runtime's included"
    )


def test_port_80_behind_another_one_is_refused_because_the_service_has_a_port_80_already() -> None:
    with pytest.raises(InvalidSpec) as caught:
        a_resolved(a_service(model={"ports": [{"containerPort": 8080}, {"containerPort": 80}]}))

    assert str(caught.value) == (
        "port 80 of the predictor is not its first one, but the Service maps its own port 80 to the first one; list "
        "80 first, or use another port"
    )


def test_port_80_comes_first() -> None:
    ports = [{"containerPort": 80}, {"containerPort": 8080}]

    assert a_resolved(a_service(model={"ports": ports})).predictor.server["ports"] == ports
