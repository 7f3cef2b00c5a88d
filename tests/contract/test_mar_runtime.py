"""The container that the shipped runtime describes is the server: its flags, its ports, its places to write."""

from __future__ import annotations

import argparse
from pathlib import Path, PurePosixPath
from typing import Any, cast

import pytest
import yaml

from data_plane.model import Models
from data_plane.server.endpoints.health import HealthEndpoints
from data_plane.server.metrics import ServerMetrics
from data_plane.server.routing import Router
from isvc_operator.api.parsing import parse_serving_runtime
from isvc_operator.api.serving_runtime import ServingRuntime
from mar_runtime.cli import build_parser
from tests.support.builders import SHIPPED_RUNTIME, a_service, the_children
from torchserve_compat.store.flags import settings_of

Manifest = dict[str, Any]


def runtime() -> ServingRuntime:
    return parse_serving_runtime(yaml.safe_load(SHIPPED_RUNTIME.with_name("isvc-mar.yaml").read_text()))


def render(**service: Any) -> Manifest:
    """The pod's spec and the Deployment's and Service's ports of a service on this runtime."""
    return the_children(a_service("digits", **service), runtime())


def pod_of(children: Manifest) -> Manifest:
    return cast(Manifest, children["Deployment"]["spec"]["template"]["spec"])


def options_of(children: Manifest) -> argparse.Namespace:
    """What the server makes of its arguments and environment."""
    server = pod_of(children)["containers"][0]
    environment = {item["name"]: item["value"] for item in server["env"]}
    return build_parser(environment).parse_args(server["args"])


@pytest.fixture
def children() -> Manifest:
    return render()


@pytest.fixture
def server(children: Manifest) -> Manifest:
    return cast(Manifest, pod_of(children)["containers"][0])


def test_the_runtime_for_onnx_is_the_same_with_an_image_without_torch() -> None:
    mar, onnx = (yaml.safe_load(SHIPPED_RUNTIME.with_name(f"isvc-{name}.yaml").read_text()) for name in ("mar", "onnx"))

    mar["metadata"]["name"] = "isvc-onnx"
    mar["spec"]["supportedModelFormats"] = [{"name": "onnx", "version": "1", "autoSelect": True, "priority": 2}]
    mar["spec"]["containers"][0]["image"] = mar["spec"]["containers"][0]["image"].replace("/mar:", "/onnx:")
    assert onnx == mar


def test_the_container_runs_the_server(server: Manifest) -> None:
    assert server["command"] == ["python", "-m", "mar_runtime"]


def test_the_server_understands_the_flags_of_torchserve_in_kserves_samples() -> None:
    options = options_of(render(model={"args": ["--disable-token-auth", "--enable-model-api"]}))

    assert settings_of(options) == {"disable_token_authorization": "true", "enable_model_api": "true"}


def test_the_server_understands_its_arguments_and_environment(children: Manifest) -> None:
    options = options_of(children)

    assert (options.model_dir, options.service_name) == (Path("/mnt/models"), "digits")
    assert (options.host, options.http_port, options.grpc_port) == ("0.0.0.0", 8080, 8081)


def test_the_services_batcher_and_timeout_reach_the_server() -> None:
    batcher = {"maxBatchSize": 16, "maxLatency": 200, "timeout": 5}

    options = options_of(render(predictor={"batcher": batcher, "timeout": 60}))

    assert (options.max_batch_size, options.max_latency, options.batch_timeout) == (16, 200, 5)
    assert options.request_timeout == 60


@pytest.mark.parametrize(
    ("variable", "value", "option", "meant"),
    [
        ("MODEL_DIR", "/models", "model_dir", Path("/models")),
        ("HTTP_HOST", "127.0.0.1", "host", "127.0.0.1"),
        ("HTTP_PORT", "9000", "http_port", 9000),
        ("GRPC_PORT", "0", "grpc_port", 0),
        ("INFERENCE_SERVICE_NAME", "bert", "service_name", "bert"),
        ("MAX_REQUEST_SIZE", "1000", "max_request_size", 1000),
        ("REQUEST_TIMEOUT", "1.5", "request_timeout", 1.5),
        ("MAX_BATCH_SIZE", "8", "max_batch_size", 8),
        ("MAX_LATENCY", "200", "max_latency", 200),
        ("BATCH_TIMEOUT", "60", "batch_timeout", 60),
        ("GRACE_PERIOD", "20", "grace_period", 20),
        ("WORK_DIR", "/scratch", "work_dir", Path("/scratch")),
        ("TERMINATION_LOG", "/tmp/why", "termination_log", Path("/tmp/why")),
        ("WORKER_MAX_REQUESTS", "1000", "worker_max_requests", 1000),
        ("WORKER_MAX_MEMORY", "2048", "worker_max_memory", 2048),
    ],
)
def test_every_variable_is_taken_and_a_flag_wins(variable: str, value: str, option: str, meant: object) -> None:
    environment = {"MODEL_DIR": "/elsewhere", variable: value}
    flag = {"service_name": "--service-name"}.get(option, f"--{option.replace('_', '-')}")

    assert vars(build_parser(environment).parse_args([]))[option] == meant
    assert vars(build_parser({"MODEL_DIR": "/elsewhere"}).parse_args([flag, value]))[option] == meant


@pytest.mark.parametrize(
    "arguments",
    [[], ["--model-dir=m", "--http-port=70000"], ["--model-dir=m", "--max-batch-size=0"],
     ["--model-dir=m", "--request-timeout=0"], ["--model-dir=m", "--worker-max-memory=much"], ["--model-dir=m", "--x"]],
)  # fmt: skip
def test_wrong_flags_end_with_their_own_code(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        build_parser({}).parse_args(arguments)

    assert ended.value.code == 2
    assert "python -m mar_runtime: error: " in capsys.readouterr().err


def test_the_model_is_mounted_where_the_server_reads_it(children: Manifest, server: Manifest) -> None:
    assert str(options_of(children).model_dir) in [item["mountPath"] for item in server["volumeMounts"]]


def test_all_that_the_server_writes_is_in_a_folder_it_may_write_to(children: Manifest, server: Manifest) -> None:
    empty = [volume["name"] for volume in pod_of(children)["volumes"] if "emptyDir" in volume]
    writable = [
        PurePosixPath(item["mountPath"])
        for item in server["volumeMounts"]
        if item["name"] in empty and not item.get("readOnly")
    ]
    home = next(item["value"] for item in server["env"] if item["name"] == "HOME")

    assert writable == [PurePosixPath("/tmp")]
    assert [PurePosixPath(path).is_relative_to("/tmp") for path in (home, options_of(children).work_dir)] == [
        True,
        True,
    ]


def test_every_port_and_probe_is_the_servers(children: Manifest, server: Manifest) -> None:
    template = children["Deployment"]["spec"]["template"]
    ports = {
        "container": server["ports"][0]["containerPort"],
        "readiness": server["readinessProbe"]["httpGet"]["port"],
        "liveness": server["livenessProbe"]["httpGet"]["port"],
        "startup": server["startupProbe"]["httpGet"]["port"],
        "service": children["Service"]["spec"]["ports"][0]["targetPort"],
        "metrics": int(template["metadata"]["annotations"]["prometheus.io/port"]),
    }

    assert ports == dict.fromkeys(ports, options_of(children).http_port)


def test_what_is_asked_for_is_there(children: Manifest, server: Manifest) -> None:
    """These endpoints are never called here."""
    router = Router(HealthEndpoints(Models(), ServerMetrics()).routes())
    annotations = children["Deployment"]["spec"]["template"]["metadata"]["annotations"]
    asked = {
        server["readinessProbe"]["httpGet"]["path"],
        server["livenessProbe"]["httpGet"]["path"],
        server["startupProbe"]["httpGet"]["path"],
        annotations["prometheus.io/path"],
    }

    assert {router.match("GET", path)[0].template for path in asked} == asked


def test_the_kubelet_reads_the_reason_where_the_server_writes_it(children: Manifest, server: Manifest) -> None:
    told = server.get("terminationMessagePath", "/dev/termination-log")

    assert Path(told) == options_of(children).termination_log


def test_the_server_has_stopped_before_the_pod_is_killed(children: Manifest, server: Manifest) -> None:
    before_the_signal = server["lifecycle"]["preStop"]["sleep"]["seconds"]
    until_the_kill = pod_of(children).get("terminationGracePeriodSeconds", 30)

    assert before_the_signal + options_of(children).grace_period < until_the_kill
