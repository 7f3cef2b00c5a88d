"""Services are rendered as the operator would, with the runtimes that are there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from isvc.run.children import render_services
from isvc.run.documents import parse_documents
from isvc.run.files import read_files, read_runtimes
from isvc_operator.config import OperatorConfig
from isvc_operator.render.children import render
from isvc_operator.resolve.component import StorageContext
from isvc_operator.resolve.requested import storage_requests
from isvc_operator.resolve.runtime import Runtimes
from isvc_operator.resolve.service import resolve
from tests.support.local_services import parsed, runtime, service

SAMPLE = Path(__file__).parents[3] / "examples/bert/inferenceservice.yaml"


def server_of(children: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    containers: list[dict[str, Any]] = children[0]["spec"]["template"]["spec"]["containers"]
    return containers[0]


def test_the_sample_gets_the_operators_children_with_the_shipped_runtime() -> None:
    given = parse_documents(read_files([SAMPLE]), "default")
    installed = parse_documents(read_runtimes(None), "default").runtimes

    (rendered,), _ = render_services(given, installed, OperatorConfig())

    (service,), runtimes, config = given.services, Runtimes(cluster=installed), OperatorConfig()
    storage = StorageContext(storage_requests(service))
    expected = render(resolve(service, runtimes, config, storage=storage), config)
    assert list(rendered.children) == expected
    assert server_of(rendered.children)["command"] == ["python", "-m", "mar_runtime"]


def test_a_runtime_of_the_file_replaces_the_installed_one_of_its_name() -> None:
    installed = parsed(runtime(command=["installed"])).runtimes

    (rendered,), _ = render_services(parsed(service(), runtime(command=["given"])), installed, OperatorConfig())

    assert server_of(rendered.children)["command"] == ["given"]


def test_a_runtime_of_another_namespace_is_not_used() -> None:
    elsewhere = {**runtime(), "kind": "ServingRuntime", "metadata": {"name": "fake", "namespace": "elsewhere"}}

    rendered, (invalid,) = render_services(parsed(service(), elsewhere), (), OperatorConfig())

    assert rendered == []
    assert str(invalid).startswith("InferenceService first: there is no ServingRuntime in this namespace")


def test_a_service_is_run_without_the_tls_that_it_asks_for_and_rendered_with_it() -> None:
    asking = service()
    asking["metadata"]["annotations"] = {"isvc-operator.io/tls-secret": "certs"}
    reading = runtime()
    reading["metadata"]["annotations"] = {"isvc-operator.io/settings": "TLS_DIR"}

    def volumes(*, tls: bool) -> list[str]:
        (rendered,), invalid = render_services(parsed(asking, reading), (), OperatorConfig(), tls=tls)
        assert invalid == []
        return [volume["name"] for volume in rendered.children[0]["spec"]["template"]["spec"].get("volumes", ())]

    assert "serving-tls" in volumes(tls=True)
    assert "serving-tls" not in volumes(tls=False)
