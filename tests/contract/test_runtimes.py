"""The containers that the shipped runtimes describe are their servers: flags, ports, and places to write."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, cast

import pytest
import yaml

import mar_runtime.cli
import torchserve_adapter.__main__
from data_plane.log_lines import OURS
from data_plane.model import Models
from data_plane.server.endpoints.health import HealthEndpoints
from data_plane.server.metrics import ServerMetrics
from data_plane.server.routing import Router
from isvc.extras import PROGRAMS
from isvc_operator.api.parsing import parse_serving_runtime
from tests.support.builders import SHIPPED_RUNTIME, a_service, the_children
from torchserve_compat.store.flags import settings_of

Manifest = dict[str, Any]
BuildParser = Callable[[Mapping[str, str]], argparse.ArgumentParser]

# By runtime: the module that is run, and the parser of its flags.
SERVERS: dict[str, tuple[str, BuildParser]] = {
    "isvc-mar": ("mar_runtime", mar_runtime.cli.build_parser),
    "kserve-torchserve": ("torchserve_adapter", torchserve_adapter.__main__.build_parser),
}


@dataclass(frozen=True)
class Rendered:
    """A service on a shipped runtime, as it is rendered."""

    runtime: str
    children: Manifest

    @property
    def template(self) -> Manifest:
        return cast(Manifest, self.children["Deployment"]["spec"]["template"])

    @property
    def pod(self) -> Manifest:
        return cast(Manifest, self.template["spec"])

    @property
    def server(self) -> Manifest:
        return cast(Manifest, self.pod["containers"][0])

    @property
    def options(self) -> argparse.Namespace:
        """What the server makes of its arguments and environment."""
        _, build_parser = SERVERS[self.runtime]
        environment = {item["name"]: item["value"] for item in self.server["env"]}
        return build_parser(environment).parse_args(self.server["args"])


def document(runtime: str) -> Manifest:
    return cast(Manifest, yaml.safe_load(SHIPPED_RUNTIME.with_name(f"{runtime}.yaml").read_text()))


def render(runtime: str, **service: Any) -> Rendered:
    return Rendered(runtime, the_children(a_service("digits", **service), parse_serving_runtime(document(runtime))))


@pytest.fixture(params=SERVERS)
def rendered(request: pytest.FixtureRequest) -> Rendered:
    return render(request.param)


def test_each_shipped_runtime_is_tested_here_and_its_program_is_known() -> None:
    programs = {module for module, _ in SERVERS.values()}
    shipped = {path.stem for path in SHIPPED_RUNTIME.parent.glob("*-*.yaml")}

    assert {*SERVERS, "isvc-onnx"} == shipped
    assert programs - PROGRAMS.keys() == set()  # of those that `isvc run` starts
    assert programs - OURS == set()  # of those whose log lines are ours


def test_the_runtime_for_onnx_is_the_same_with_an_image_without_torch() -> None:
    mar, onnx = document("isvc-mar"), document("isvc-onnx")

    mar["metadata"]["name"] = "isvc-onnx"
    mar["spec"]["supportedModelFormats"] = [{"name": "onnx", "version": "1", "autoSelect": True, "priority": 2}]
    mar["spec"]["containers"][0]["image"] = mar["spec"]["containers"][0]["image"].replace("/mar:", "/onnx:")
    assert onnx == mar


def test_the_container_runs_the_server(rendered: Rendered) -> None:
    module, _ = SERVERS[rendered.runtime]

    assert rendered.server["command"] == ["python", "-m", module]


@pytest.mark.parametrize("runtime", SERVERS)
def test_the_server_understands_the_flags_of_torchserve_in_kserves_samples(runtime: str) -> None:
    options = render(runtime, model={"args": ["--disable-token-auth", "--enable-model-api"]}).options

    assert settings_of(options) == {"disable_token_authorization": "true", "enable_model_api": "true"}


def test_the_server_understands_its_arguments_and_environment(rendered: Rendered) -> None:
    options = rendered.options

    assert (options.model_dir, options.service_name) == (Path("/mnt/models"), "digits")
    assert (options.host, options.http_port, options.grpc_port) == ("0.0.0.0", 8080, 8081)


def test_the_services_batcher_and_timeout_reach_the_server() -> None:
    batcher = {"maxBatchSize": 16, "maxLatency": 200, "timeout": 5}

    options = render("isvc-mar", predictor={"batcher": batcher, "timeout": 60}).options

    assert (options.max_batch_size, options.max_latency, options.batch_timeout) == (16, 200, 5)
    assert options.request_timeout == 60


@pytest.mark.parametrize(
    "arguments",
    [[], ["--model-dir=m", "--http-port=70000"], ["--model-dir=m", "--max-batch-size=0"],
     ["--model-dir=m", "--request-timeout=0"], ["--model-dir=m", "--worker-max-memory=much"], ["--model-dir=m", "--x"]],
)  # fmt: skip
def test_wrong_flags_end_with_their_own_code(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    _, build_parser = SERVERS["isvc-mar"]

    with pytest.raises(SystemExit) as ended:
        build_parser({}).parse_args(arguments)

    assert ended.value.code == 2
    assert "python -m mar_runtime: error: " in capsys.readouterr().err


def test_the_model_is_mounted_where_the_server_reads_it(rendered: Rendered) -> None:
    assert str(rendered.options.model_dir) in [item["mountPath"] for item in rendered.server["volumeMounts"]]


def test_all_that_the_server_writes_is_in_a_folder_it_may_write_to(rendered: Rendered) -> None:
    empty = [volume["name"] for volume in rendered.pod["volumes"] if "emptyDir" in volume]
    writable = [
        PurePosixPath(item["mountPath"])
        for item in rendered.server["volumeMounts"]
        if item["name"] in empty and not item.get("readOnly")
    ]
    home = next(item["value"] for item in rendered.server["env"] if item["name"] == "HOME")

    assert writable == [PurePosixPath("/tmp")]
    assert [PurePosixPath(path).is_relative_to("/tmp") for path in (home, rendered.options.work_dir)] == [True, True]


def test_every_port_and_probe_is_the_servers(rendered: Rendered) -> None:
    server = rendered.server
    ports = {
        "container": server["ports"][0]["containerPort"],
        "readiness": server["readinessProbe"]["httpGet"]["port"],
        "liveness": server["livenessProbe"]["httpGet"]["port"],
        "startup": server["startupProbe"]["httpGet"]["port"],
        "service": rendered.children["Service"]["spec"]["ports"][0]["targetPort"],
        "metrics": int(rendered.template["metadata"]["annotations"]["prometheus.io/port"]),
    }

    assert ports == dict.fromkeys(ports, rendered.options.http_port)


def test_what_is_asked_for_is_there(rendered: Rendered) -> None:
    """These endpoints are never called here."""
    router = Router(HealthEndpoints(Models(), ServerMetrics()).routes())
    asked = [
        rendered.server["readinessProbe"]["httpGet"]["path"],
        rendered.server["livenessProbe"]["httpGet"]["path"],
        rendered.server["startupProbe"]["httpGet"]["path"],
        rendered.template["metadata"]["annotations"]["prometheus.io/path"],
    ]

    assert [router.match("GET", path)[0].template for path in asked] == [
        "/v2/health/ready",
        "/v2/health/live",
        "/v2/health/live",
        "/metrics",
    ]


def test_the_kubelet_reads_the_reason_where_the_server_writes_it(rendered: Rendered) -> None:
    told = rendered.server.get("terminationMessagePath", "/dev/termination-log")

    assert Path(told) == rendered.options.termination_log


def test_the_server_has_stopped_before_the_pod_is_killed(rendered: Rendered) -> None:
    before_the_signal = rendered.server["lifecycle"]["preStop"]["sleep"]["seconds"]
    until_the_kill = rendered.pod.get("terminationGracePeriodSeconds", 30)

    assert before_the_signal + rendered.options.grace_period < until_the_kill
