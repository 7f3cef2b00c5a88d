"""The container that the shipped runtime describes is the adapter: its flags, its door, its places to write."""

from __future__ import annotations

import argparse
from pathlib import Path, PurePosixPath
from typing import Any, cast

import pytest

from data_plane.model import Models
from data_plane.server.endpoints.health import HealthEndpoints
from data_plane.server.metrics import ServerMetrics
from data_plane.server.routing import Router
from tests.support.builders import a_service, the_children, the_shipped_runtime
from torchserve_adapter.__main__ import build_parser
from torchserve_compat.store.flags import settings_of


@pytest.fixture
def children() -> dict[str, dict[str, Any]]:
    return the_children(a_service("torchserve"), the_shipped_runtime())


@pytest.fixture
def pod(children: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return cast(dict[str, Any], children["Deployment"]["spec"]["template"]["spec"])


@pytest.fixture
def server(pod: dict[str, Any]) -> dict[str, Any]:
    return cast(dict[str, Any], pod["containers"][0])


@pytest.fixture
def options(server: dict[str, Any]) -> argparse.Namespace:
    """What the adapter makes of its arguments and environment."""
    environment = {item["name"]: item["value"] for item in server["env"]}
    return build_parser(environment).parse_args(server["args"])


@pytest.fixture
def router() -> Router:
    """The routes that everything but clients asks for; their endpoints are never called here."""
    return Router(HealthEndpoints(Models(), ServerMetrics()).routes())


def test_the_container_runs_the_adapter(server: dict[str, Any]) -> None:
    assert server["command"] == ["python", "-m", "torchserve_adapter"]


def test_the_adapter_understands_its_arguments_and_environment(options: argparse.Namespace) -> None:
    assert options.model_dir == Path("/mnt/models")
    assert (options.host, options.http_port) == ("0.0.0.0", 8080)
    assert options.service_name == "torchserve"


def test_the_adapter_understands_the_flags_of_torchserve_in_kserves_samples(server: dict[str, Any]) -> None:
    options = build_parser({}).parse_args([*server["args"], "--disable-token-auth", "--enable-model-api"])

    assert settings_of(options) == {"disable_token_authorization": "true", "enable_model_api": "true"}


def test_the_model_is_mounted_where_the_adapter_reads_it(server: dict[str, Any], options: argparse.Namespace) -> None:
    assert str(options.model_dir) in [item["mountPath"] for item in server["volumeMounts"]]


def test_the_server_has_a_folder_to_write_to_on_a_read_only_root(pod: dict[str, Any], server: dict[str, Any]) -> None:
    empty = [volume["name"] for volume in pod["volumes"] if "emptyDir" in volume]
    writable = [
        PurePosixPath(item["mountPath"])
        for item in server["volumeMounts"]
        if item["name"] in empty and not item.get("readOnly")
    ]
    home = next(item["value"] for item in server["env"] if item["name"] == "HOME")

    assert writable == [PurePosixPath("/tmp")]
    assert PurePosixPath(home).is_relative_to("/tmp")


def test_every_port_and_probe_is_the_adapters(
    children: dict[str, dict[str, Any]], server: dict[str, Any], options: argparse.Namespace
) -> None:
    ports = {
        "container": server["ports"][0]["containerPort"],
        "readiness": server["readinessProbe"]["httpGet"]["port"],
        "liveness": server["livenessProbe"]["httpGet"]["port"],
        "startup": server["startupProbe"]["httpGet"]["port"],
        "service": children["Service"]["spec"]["ports"][0]["targetPort"],
        "metrics": int(children["Deployment"]["spec"]["template"]["metadata"]["annotations"]["prometheus.io/port"]),
    }

    assert ports == dict.fromkeys(ports, options.http_port)


def test_what_is_asked_for_is_there(
    children: dict[str, dict[str, Any]], server: dict[str, Any], router: Router
) -> None:
    annotations = children["Deployment"]["spec"]["template"]["metadata"]["annotations"]
    paths = [
        server["readinessProbe"]["httpGet"]["path"],
        server["livenessProbe"]["httpGet"]["path"],
        server["startupProbe"]["httpGet"]["path"],
        annotations["prometheus.io/path"],
    ]

    assert [router.match("GET", path)[0].template for path in paths] == [
        "/v2/health/ready",
        "/v2/health/live",
        "/v2/health/live",
        "/metrics",
    ]


def test_the_kubelet_reads_the_reason_where_the_adapter_writes_it(
    server: dict[str, Any], options: argparse.Namespace
) -> None:
    assert Path(server.get("terminationMessagePath", "/dev/termination-log")) == options.termination_log


def test_the_adapter_has_stopped_before_the_pod_is_killed(
    pod: dict[str, Any], server: dict[str, Any], options: argparse.Namespace
) -> None:
    before_the_signal = server["lifecycle"]["preStop"]["sleep"]["seconds"]

    assert before_the_signal + options.grace_period < pod.get("terminationGracePeriodSeconds", 30)
