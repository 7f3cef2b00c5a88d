"""`isvc predict` on the real API server, with a model that this test plays, and against `isvc run`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from isvc.commands import main
from tests.support.apiserver import ApiServer
from tests.support.doc_shell import DocShell
from tests.support.fake_kubelet import forwarding_kubelet
from tests.support.namespace import Namespace, story_service
from tests.support.object_stores.proxy import Answer, Request, proxy
from tests.support.ports import free_port

Captured = pytest.CaptureFixture[str]
HOST = "torchserve.models.example.com"
TIMES = "queue;dur=0.001, batch;dur=0.002, model;dur=0.003, transport;dur=0.004"


@dataclass
class Model:
    """A server that answers every request, and remembers it."""

    models: list[str]
    status: int = 200
    answer: bytes = b'{"predictions": [4]}'
    requests: list[tuple[str, str, str, bytes]] = field(default_factory=list)  # path, host, content type, body
    port: int = 0


@contextmanager
def answering(model: Model) -> Iterator[Model]:
    def answer(request: Request) -> Answer:
        headers = {"Server-Timing": TIMES if "x-server-timing" in request.headers else ""}
        if request.method == "GET":
            return Answer(200, json.dumps({"models": model.models}).encode(), headers)
        kind = request.headers["content-type"].partition(";")[0]
        model.requests.append((request.target, request.headers["host"], kind, request.body))
        return Answer(model.status, model.answer, headers)

    with proxy(None, answer) as server:
        model.port = server.port
        yield model


@pytest.fixture
def model() -> Iterator[Model]:
    with answering(Model(["bert"])) as found:
        yield found


@pytest.fixture
def team(apiserver: ApiServer, namespace: str) -> Namespace:
    """A namespace whose service has a URL, as the operator writes it."""
    found = Namespace(apiserver, namespace)
    found.apply(story_service())
    found.patch_status("inferenceservice", "torchserve", {"url": f"http://{HOST}"})
    return found


@pytest.fixture
def flags(apiserver: ApiServer, team: Namespace) -> list[str]:
    return [f"--kubeconfig={apiserver.kubeconfig}", "-n", team.name]


def ingress_at(team: Namespace, address: str, name: str = "torchserve") -> None:
    backend = {"service": {"name": f"{name}-predictor", "port": {"number": 80}}}
    metadata, spec = {"name": name}, {"defaultBackend": backend}
    team.apply({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": metadata, "spec": spec})
    team.patch_status("ingress", name, {"loadBalancer": {"ingress": [{"ip": address}]}})


def test_the_address_of_the_ingress_the_host_and_the_model_are_found(
    model: Model, team: Namespace, flags: list[str], capsys: Captured
) -> None:
    team.patch_status("inferenceservice", "torchserve", {"url": f"http://{HOST}:{model.port}"})
    ingress_at(team, "127.0.0.1")

    assert main(["predict", "torchserve", "-d", '{"instances": [1]}', *flags]) == 0

    assert model.requests == [
        ("/v1/models/bert:predict", f"{HOST}:{model.port}", "application/json", b'{"instances": [1]}')
    ]
    printed = capsys.readouterr()
    assert printed.out == '{"predictions": [4]}'
    assert "ms: queue 0.001 ms, batch 0.002 ms, model 0.003 ms, transport 0.004 ms, network " in printed.err


def test_a_service_that_is_not_ready_is_said_beside_its_answer(
    model: Model, team: Namespace, flags: list[str], capsys: Captured
) -> None:
    failed = {"type": "Ready", "status": "False", "reason": "ServerFailed", "message": "no licence for this model"}
    url = f"http://{HOST}:{model.port}"
    team.patch_status("inferenceservice", "torchserve", {"url": url, "conditions": [failed], "observedGeneration": 1})
    ingress_at(team, "127.0.0.1")
    model.status, model.answer = 503, b'{"error": "no pod is ready"}'

    assert main(["predict", "torchserve", "-d", "[1]", *flags]) == 1
    assert capsys.readouterr().err.endswith(
        "/v1/models/bert:predict returned 503: no pod is ready; torchserve is Failed: ServerFailed: no licence for "
        f"this model; isvc diagnose torchserve -n {team.name} says more\n"
    )

    model.status = 400
    assert main(["predict", "torchserve", "-d", "[1]", *flags]) == 1
    assert capsys.readouterr().err.endswith("/v1/models/bert:predict returned 400: no pod is ready\n")


def test_bench_finds_what_predict_finds(model: Model, team: Namespace, flags: list[str]) -> None:
    team.patch_status("inferenceservice", "torchserve", {"url": f"http://{HOST}:{model.port}"})
    ingress_at(team, "127.0.0.1")

    assert main(["bench", "torchserve", "-d", '{"instances": [1]}', "--requests=5", "-c2", *flags]) == 0

    request = ("/v1/models/bert:predict", f"{HOST}:{model.port}", "application/json", b'{"instances": [1]}')
    assert model.requests == [request] * 5


def test_an_address_may_be_named_and_the_answer_be_json(
    model: Model, flags: list[str], tmp_path: Path, capsys: Captured
) -> None:
    tensors = {"inputs": [{"name": "data", "shape": [1], "datatype": "FP32", "data": [1]}]}
    (tmp_path / "request.json").write_text(json.dumps(tensors))
    arguments = ["-d", f"@{tmp_path}/request.json", "--address", f"127.0.0.1:{model.port}", "-o", "json"]

    assert main(["predict", "torchserve", *arguments, *flags]) == 0

    data = json.loads(capsys.readouterr().out)
    assert (data["answer"], data["protocol"], data["model"], data["status"]) == (
        {"predictions": [4]},
        "v2",
        "bert",
        200,
    )
    assert sum(stage["milliseconds"] for stage in data["stages"]) == pytest.approx(data["milliseconds"], abs=0.01)
    assert [(path, host) for path, host, *_ in model.requests] == [("/v2/models/bert/infer", HOST)]


def test_files_go_as_a_form(model: Model, flags: list[str], tmp_path: Path) -> None:
    (tmp_path / "cat.jpg").write_bytes(b"\xff\xd8")
    arguments = ["-f", f"image={tmp_path}/cat.jpg", "--address", f"127.0.0.1:{model.port}"]

    assert main(["predict", "torchserve", *arguments, *flags]) == 0

    [(path, _, kind, body)] = model.requests
    assert (path, kind) == ("/predictions/bert", "multipart/form-data")
    assert b'name="image"; filename="cat.jpg"' in body
    assert b"Content-Type: image/jpeg" in body


def test_a_pod_is_reached_through_the_api_server(
    model: Model, apiserver: ApiServer, team: Namespace, flags: list[str], tmp_path: Path, capsys: Captured
) -> None:
    model.answer = b'{"predictions": "' + b"x" * 300_000 + b'"}'
    with forwarding_kubelet(apiserver, "forwarding", tmp_path / "kubelet") as asked:
        ready_pod(team, "forwarding", model.port)

        assert main(["predict", "torchserve", "-d", '{"instances": [1]}', "--port-forward", *flags]) == 0

    assert capsys.readouterr().out.encode() == model.answer
    assert [host for _, host, *_ in model.requests] == [f"torchserve-predictor.{team.name}.svc"]
    assert asked
    assert all(path.startswith(f"/portForward/{team.name}/torchserve-predictor-1") for path in asked)


@pytest.mark.process
def test_the_ways_of_the_page_lead_to_the_model(
    model: Model, apiserver: ApiServer, team: Namespace, tmp_path: Path
) -> None:
    """The service of docs/predict.md is another one than the sample's."""
    bert = story_service()
    bert["metadata"]["name"] = "bert"
    team.apply(bert)
    team.patch_status("inferenceservice", "bert", {"url": f"http://{HOST}"})
    (tmp_path / "sample.json").write_text('{"instances": [1]}')
    ours = {"192.0.2.10:8080": f"127.0.0.1:{model.port}", "127.0.0.1:8080": f"127.0.0.1:{model.port}"}
    with forwarding_kubelet(apiserver, "leading", tmp_path / "kubelet"):
        ready_pod(team, "leading", model.port, service="bert")

        DocShell(tmp_path, swaps=ours).of_cluster(apiserver, team.name).run("docs/predict.md: isvc predict bert -d @")

    hosts = [f"bert-predictor.{team.name}.svc", HOST, "bert.default.example.com"]
    assert [host.partition(":")[0] for _, host, *_ in model.requests] == hosts


@pytest.mark.process
def test_the_shapes_of_the_page_are_sent_to_the_protocols_that_it_names(
    model: Model, apiserver: ApiServer, team: Namespace, tmp_path: Path
) -> None:
    model.models = ["bert", "mnist", "densenet161", "resnet"]
    for name in model.models:
        service = story_service()
        service["metadata"]["name"] = name
        team.apply(service)
        team.patch_status("inferenceservice", name, {"url": f"http://{HOST}:{model.port}"})
        ingress_at(team, "127.0.0.1", name)
    tensors = {"inputs": [{"name": "data", "shape": [1], "datatype": "FP32", "data": [1]}]}
    (tmp_path / "tensors.json").write_text(json.dumps(tensors))
    (tmp_path / "sample.json").write_text('{"instances": [1]}')
    for name in ("kitten.jpg", "top.txt"):
        (tmp_path / name).write_bytes(b"3")

    DocShell(tmp_path).of_cluster(apiserver, team.name).run("docs/predict.md: isvc predict bert -d '{")

    assert [(path, kind) for path, _, kind, _ in model.requests] == [
        ("/v1/models/bert:predict", "application/json"),
        ("/v1/models/bert:predict", "application/json"),
        ("/v2/models/mnist/infer", "application/json"),
        ("/v1/models/bert:predict", "application/json"),
        ("/predictions/densenet161", "image/jpeg"),
        ("/predictions/densenet161", "multipart/form-data"),
        ("/v1/models/resnet:predict", "application/json"),
    ]


def test_a_port_that_nothing_listens_on_is_named(
    apiserver: ApiServer, team: Namespace, flags: list[str], tmp_path: Path, capsys: Captured
) -> None:
    port = free_port()
    with forwarding_kubelet(apiserver, "refusing", tmp_path / "kubelet"):
        ready_pod(team, "refusing", port)

        assert main(["predict", "torchserve", "-d", "[1]", "--port-forward", *flags]) == 1

    assert f"isvc: port {port} of pod torchserve-predictor-1 cannot be reached: " in capsys.readouterr().err


def ready_pod(team: Namespace, node: str, port: int, service: str = "torchserve") -> None:
    labels = {"serving.kserve.io/inferenceservice": service, "component": "predictor"}
    container = {"name": "kserve-container", "image": "i:1", "ports": [{"name": "http", "containerPort": port}]}
    metadata = {"name": f"{service}-predictor-1", "labels": labels}
    spec = {"nodeName": node, "containers": [container]}
    team.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    conditions = [{"type": "Ready", "status": "True"}]
    team.patch_status("pod", f"{service}-predictor-1", {"phase": "Running", "conditions": conditions})
    ports = [{"port": 80, "targetPort": "http"}]
    spec = {"ports": ports, "selector": {"app": f"isvc.{service}-predictor"}}
    team.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": f"{service}-predictor"}, "spec": spec})


@pytest.mark.parametrize(
    ("name", "arguments", "words", "code"),
    [
        ("absent", [], "there is no InferenceService absent in namespace ", 1),
        ("torchserve", ["--port-forward"], "no pod of InferenceService torchserve is ready: ", 1),
        ("torchserve", ["--address=127.0.0.1:1"], "no answer from http://127.0.0.1:1: Connect call failed ", 1),
        ("torchserve", ["--address=a:b"], "--address a:b: write HOST or HOST:PORT, without a scheme and a path", 2),
        ("torchserve", ["-d", "{"], "the data is not JSON: ", 2),
        ("torchserve", ["-d", __file__], f"{__file__} is a file; to send what is in it, write -d @{__file__}", 2),
        ("torchserve", ["-d", "@/absent"], "/absent cannot be read: No such file or directory", 2),
    ],
    ids=["service", "pod", "address", "bad address", "data", "no @", "file"],
)
def test_what_is_missing_is_one_line(
    flags: list[str], capsys: Captured, name: str, arguments: list[str], words: str, code: int
) -> None:
    assert main(["predict", name, "-d", "[1]", *arguments, *flags]) == code

    assert [line.startswith(f"isvc: {words}") for line in capsys.readouterr().err.splitlines()] == [True]


def test_an_answer_that_is_an_error_is_exit_code_1(model: Model, capsys: Captured) -> None:
    model.status, model.answer = 400, b'{"error": "instances is not a list"}'

    assert main(["predict", "bert", "-d", '{"instances": 1}', "--url", f"http://127.0.0.1:{model.port}"]) == 1

    assert capsys.readouterr() == (
        "",
        f"isvc: http://127.0.0.1:{model.port}/v1/models/bert:predict returned 400: instances is not a list\n",
    )


@pytest.mark.parametrize(("is_one", "before"), [(True, "\n"), (False, "")])
def test_the_time_has_a_line_of_its_own_where_both_streams_go_to_one_place(
    model: Model, capsys: Captured, monkeypatch: pytest.MonkeyPatch, *, is_one: bool, before: str
) -> None:
    monkeypatch.setattr(os.path, "sameopenfile", lambda *_: is_one)

    assert main(["predict", "bert", "-d", "[1]", "--model=bert", "--url", f"http://127.0.0.1:{model.port}"]) == 0

    printed = capsys.readouterr()
    assert (printed.out, re.sub(r"[0-9.]+ ms.*", "TIME", printed.err)) == ('{"predictions": [4]}', f"{before}TIME\n")


def test_of_several_models_one_has_to_be_chosen(capsys: Captured) -> None:
    with answering(Model(["one", "two"])) as model:
        url = f"http://127.0.0.1:{model.port}"
        assert main(["predict", "bert", "-d", "[1]", "--url", url]) == 1
        assert capsys.readouterr().err == "isvc: bert serves one, two; choose one with --model\n"

        assert main(["predict", "bert", "-d", "[1]", "--url", url, "--model", "two"]) == 0
        assert model.requests[0][:2] == ("/v1/models/two:predict", "bert.default.example.com")
