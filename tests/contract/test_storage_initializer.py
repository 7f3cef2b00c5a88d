"""What the operator renders for the init container is what the storage-initializer reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from storage_initializer.plan import LayoutName, Plan, Transfer, make_plan
from storage_initializer.uri import parse_uri
from tests.support.builders import a_runtime, a_service, the_children, the_shipped_runtime

SERVER_TYPES = {"torchserve": LayoutName.TORCHSERVE, "mlserver": LayoutName.NONE, None: LayoutName.NONE}


def pod_of(uri: str, server_type: str | None = "torchserve") -> dict[str, Any]:
    children = the_children(a_service(model={"storageUri": uri}), a_runtime(server_type=server_type))
    pod: dict[str, Any] = children["Deployment"]["spec"]["template"]["spec"]
    return pod


def environment_of(container: dict[str, Any]) -> dict[str, str]:
    return {item["name"]: item["value"] for item in container["env"]}


def plan_of(pod: dict[str, Any]) -> Plan:
    (initializer,) = pod["initContainers"]
    return make_plan(initializer["args"], environment_of(initializer))


@pytest.mark.parametrize(("server_type", "layout"), SERVER_TYPES.items())
def test_the_initializer_reads_what_was_rendered(server_type: str | None, layout: LayoutName) -> None:
    plan = plan_of(pod_of("pvc://leeway/bert", server_type))

    assert plan == replace(
        make_plan(["pvc://leeway/bert", "/mnt/models"], {}),
        transfers=(Transfer(parse_uri("pvc://leeway/bert"), Path("/mnt/models")),),
        pvc_root=Path("/mnt/pvc"),
        layout=layout,
        termination_log=Path("/dev/termination-log"),
    )


def test_every_variable_that_is_rendered_is_one_that_the_initializer_reads() -> None:
    (initializer,) = pod_of("pvc://leeway")["initContainers"]
    arguments = initializer["args"]

    for name in environment_of(initializer):
        with_it = make_plan(arguments, {name: "none"})
        assert with_it != make_plan(arguments, {}), name


@pytest.mark.parametrize(
    "uri", ["pvc://leeway", "pvc://leeway/", "pvc://leeway/sub/50%.mar", "PVC://leeway/a", "pvc://leeway/a#b?c"]
)
def test_a_claim_is_mounted_where_the_initializer_looks_for_it(uri: str) -> None:
    pod = pod_of(uri)
    plan = plan_of(pod)
    (transfer,) = plan.transfers
    mounts = {item["mountPath"]: item for item in pod["initContainers"][0]["volumeMounts"]}
    volumes = {item["name"]: item for item in pod["volumes"]}

    mount = mounts[str(plan.pvc_root / transfer.source.authority)]

    assert mount["readOnly"] is True
    assert volumes[mount["name"]]["persistentVolumeClaim"] == {
        "claimName": transfer.source.authority,
        "readOnly": True,
    }


def test_the_initializer_writes_where_the_server_reads() -> None:
    pod = pod_of("pvc://leeway")
    (transfer,) = plan_of(pod).transfers
    containers = (pod["initContainers"][0], pod["containers"][0])

    written, read = (
        next(item for item in container["volumeMounts"] if item["mountPath"] == str(transfer.destination))
        for container in containers
    )

    assert written["name"] == read["name"]
    assert not written.get("readOnly")
    assert read["readOnly"] is True


def test_the_kubelet_reads_the_reason_where_the_initializer_writes_it() -> None:
    (initializer,) = pod_of("pvc://leeway")["initContainers"]

    assert initializer.get("terminationMessagePath", "/dev/termination-log") == str(
        plan_of(pod_of("pvc://leeway")).termination_log
    )


def test_the_shipped_runtime_asks_for_the_layout_of_torchserve() -> None:
    children = the_children(runtime=the_shipped_runtime())

    assert plan_of(children["Deployment"]["spec"]["template"]["spec"]).layout is LayoutName.TORCHSERVE
