"""``isvc run --watch``: a change rolls the pods without losing a request; what cannot be used changes nothing."""

from __future__ import annotations

import json
import re
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from kserve.protocol.grpc import grpc_predict_v2_pb2 as pb
from kserve.protocol.grpc.grpc_predict_v2_pb2_grpc import GRPCInferenceServiceStub

from tests.support.isvc_process import TIMEOUT, Sandbox, is_running, read_until, stop
from tests.support.local_services import runtime, service, write_yaml
from tests.support.model_folder import manifest, write_mar
from tests.support.waiting import eventually

HOST = "first.default.example.com"
PREDICT = "/v1/models/fake:predict"
TRANSFORMER = Path(__file__).parents[2] / "support" / "fake_transformer.py"
TORCHLESS = Path(__file__).parents[2] / "support" / "torchless"
WAY_OUT = "correct what failed above and save the file: new pods start then"
SERVE_ON = f"the pods from before the change serve on; {WAY_OUT}"
HANDLER = b"import os\n\n\ndef handle(data, context):\n    return data and [str(os.getppid()) for _ in data]\n"


@contextmanager
def asking(sandbox: Sandbox, clients: int = 4, path: str = PREDICT) -> Iterator[list[tuple[int, Any]]]:
    """Clients that ask one request after another; their answers."""
    answers: list[tuple[int, Any]] = []
    ended = threading.Event()

    def ask() -> None:
        while not ended.is_set():
            try:
                answers.append(sandbox.ask(HOST, path, {"instances": [1]}))
            except OSError as error:
                answers.append((0, {"error": str(error)}))

    threads = [threading.Thread(target=ask) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def replaced(answers: list[tuple[int, Any]], before: object, field: str = "pid") -> bool:
    """Whether the last answers are all those of another pod."""
    return len(answers) > 20 and all(answer.get(field) not in (None, before) for _, answer in answers[-10:])


def with_variable(value: str, **predictor: Any) -> dict[str, Any]:
    body = service(env={"VERSION": value, "SLOW": "0.02"})
    body["spec"]["predictor"] |= predictor
    return body


def test_changes_reach_the_pods_and_no_request_is_lost(sandbox: Sandbox) -> None:
    """The YAML, then the model, then a YAML that is not valid, then one whose pods fail, then a good one again."""
    file = write_yaml(sandbox.folder / "services.yaml", with_variable("1"), runtime())
    with sandbox.running(file, "--pvc", f"models={sandbox.folder / 'models'}", "--watch") as process:
        read_until(process.stdout, "Ctrl-C stops it.")
        with asking(sandbox) as answers:
            _, first = sandbox.ask(HOST, PREDICT, {"instances": [1]})

            write_yaml(file, with_variable("2"), runtime())
            eventually(lambda: replaced(answers, first["pid"]), "another pod answers")
            assert not is_running(first["pid"])

            second = answers[-1][1]
            (sandbox.folder / "models/weights").write_text("4 5 6")
            eventually(
                lambda: replaced(answers, "1 2 3", "has") and answers[-1][1]["has"] == ["4 5 6"], "the new model"
            )
            third = answers[-1][1]

            changed = sandbox.folder / "models/weights"
            log = read_until(process.stderr, f"first serves the change of {changed}")
            file.write_text("spec: [")
            log += read_until(process.stderr, "the services run on as they are")
            write_yaml(file, service(env={"FAIL": "not so"}), runtime())
            log += read_until(process.stderr, "the files can be used again, and are")
            log += read_until(process.stderr, "failed (exit code 3): not so")
            log += read_until(process.stderr, f"first-predictor: {SERVE_ON}")
            assert sandbox.ask(HOST, PREDICT, {"instances": [1]})[1]["pid"] == third["pid"]
            request = urllib.request.Request(f"http://127.0.0.1:{sandbox.port}/", headers={"Accept": "text/html"})
            with urllib.request.urlopen(request, timeout=TIMEOUT) as page:
                front = page.read().decode()

            write_yaml(file, with_variable("3"), runtime())
            eventually(lambda: replaced(answers, third["pid"]), "another pod answers")
        stop(process)

    assert Counter(status for status, _ in answers) == {200: len(answers)}
    assert len({answer["pid"] for _, answer in answers}) == 4
    assert second["pid"] not in (first["pid"], third["pid"])
    assert '<a href="/default/first/">first</a>: not ready, the pods from before the change serve on' in front
    assert f"{file}:1:8: this is not YAML" in log
    assert f"{file} has changed" in log
    assert process.returncode == 0
    assert list(sandbox.temporary.iterdir()) == []


def test_a_model_that_cannot_be_loaded_any_more_replaces_nothing(sandbox: Sandbox) -> None:
    model = sandbox.folder / "model.onnx"
    model.write_bytes(b"\x08\x08\x3a\0")  # no more is looked at before a server starts
    fake = runtime()
    fake["spec"]["supportedModelFormats"] = [{"name": "onnx", "autoSelect": True}]
    (sandbox.folder / "runtimes").mkdir()
    write_yaml(sandbox.folder / "runtimes/fake.yaml", fake)
    with sandbox.running(model, "--watch", "--runtimes", sandbox.folder / "runtimes") as process:
        read_until(process.stderr, "kserve-container is ready")
        model.write_bytes(b"")
        log = read_until(process.stderr, "the services run on as they are")
        stop(process)

    assert log == f"the services run on as they are: {model}: is empty; copy or save it again\n"


def test_after_a_change_that_fails_as_the_first_pods_did_no_pod_serves(sandbox: Sandbox) -> None:
    file = write_yaml(sandbox.folder / "services.yaml", service(env={"FAIL": "one"}), runtime())
    with sandbox.running(file, "--pvc", f"models={sandbox.folder / 'models'}", "--watch") as process:
        first = read_until(process.stderr, "failed (exit code 3): one")
        write_yaml(file, service(env={"FAIL": "two"}), runtime())
        log = read_until(process.stderr, f"first-predictor: no pod serves; {WAY_OUT}")
        stop(process)

    assert WAY_OUT not in first
    assert "failed (exit code 3): two" in log


def test_who_serves_is_said_once_for_each_change_that_fails(sandbox: Sandbox) -> None:
    file = write_yaml(sandbox.folder / "services.yaml", service(), runtime())
    with sandbox.running(file, "--pvc", f"models={sandbox.folder / 'models'}", "--watch") as process:
        read_until(process.stdout, "Ctrl-C stops it.")
        log = ""
        for value in ("one", "two"):
            write_yaml(file, service(env={"FAIL": value}), runtime())
            log += read_until(process.stderr, f"failed (exit code 3): {value}")
            log += read_until(process.stderr, "failed again, same cause (×2)")
        _, rest = stop(process)

    assert (log + rest).count(f"first-predictor: {SERVE_ON}") == 2


def test_a_server_on_another_port_takes_over_and_the_old_one_ends(sandbox: Sandbox) -> None:
    other = runtime(
        args=["--http-port=9090", "--model-dir=/mnt/models"],
        ports=[{"containerPort": 9090}],
        readinessProbe={"httpGet": {"path": "/v2/health/ready", "port": 9090}},
    )
    file = write_yaml(sandbox.folder / "services.yaml", with_variable("1"), runtime())
    with sandbox.running(file, "--pvc", f"models={sandbox.folder / 'models'}", "--watch") as process:
        read_until(process.stdout, "Ctrl-C stops it.")
        with asking(sandbox, clients=2) as answers:
            _, first = sandbox.ask(HOST, PREDICT, {"instances": [1]})
            write_yaml(file, with_variable("1"), other)
            eventually(lambda: replaced(answers, first["pid"]), "another pod answers")
            eventually(lambda: not is_running(first["pid"]), "the old one ends")
        _, log = stop(process)

    assert Counter(status for status, _ in answers) == {200: len(answers)}
    assert "Traceback" not in log
    assert process.returncode == 0


def test_an_edit_that_no_api_server_would_accept_changes_nothing(sandbox: Sandbox) -> None:
    """Whatever is wrong with it: a field that is missing, and a name that nothing has."""
    wrong: dict[str, dict[str, Any]] = {
        "readinessProbe.httpGet.port: Required value": {"readinessProbe": {"httpGet": {"path": "/"}}},
        "asks port 'web', which the container does not name": {"readinessProbe": {"httpGet": {"port": "web"}}},
    }
    file = write_yaml(sandbox.folder / "services.yaml", service(), runtime())
    with sandbox.running(file, "--pvc", f"models={sandbox.folder / 'models'}", "--watch") as process:
        read_until(process.stdout, "Ctrl-C stops it.")
        _, first = sandbox.ask(HOST, PREDICT, {"instances": [1]})
        for words, fields in wrong.items():
            write_yaml(file, service(), runtime(**fields))
            assert words in read_until(process.stderr, "the services run on as they are")
        write_yaml(file, service(uri="s4://models"), service("second", uri="s4://models"), runtime())
        last_words = read_until(process.stderr, "InferenceService second")
        _, last = sandbox.ask(HOST, PREDICT, {"instances": [1]})
        _, log = stop(process)

    assert last["pid"] == first["pid"]
    assert [line.partition(": storageUri")[0] for line in last_words.splitlines()] == [
        f"{file} has changed",
        "the services run on as they are: InferenceService first",
        "InferenceService second",
    ]
    assert "Traceback" not in log
    assert process.returncode == 0


def test_what_was_refused_at_the_start_does_not_hold_up_changes_and_is_served_when_it_is_mended(
    sandbox: Sandbox,
) -> None:
    other = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "other"}}
    bad = write_yaml(sandbox.folder / "bad.yaml", service("second", uri="s4://models"))
    file = write_yaml(sandbox.folder / "services.yaml", service("first"), runtime(), other)
    with sandbox.running(bad, file, "--pvc", f"models={sandbox.folder / 'models'}", "--watch") as process:
        read_until(process.stdout, "Ctrl-C stops it.")
        with asking(sandbox, clients=2) as answers:
            _, first = sandbox.ask(HOST, PREDICT, {"instances": [1]})
            write_yaml(file, with_variable("2"), runtime(), other)
            log = read_until(process.stderr, "refused, for the reasons above: second")
            eventually(lambda: replaced(answers, first["pid"]), "another pod answers")
        write_yaml(file, service("first", uri="s5://models"), runtime())
        log += read_until(process.stderr, "the services run on as they are: ")
        write_yaml(file, service("first"), runtime())
        write_yaml(bad, service("second"))
        read_until(process.stdout, "second is served")
        stop(process)

    assert log.count("Deployment other") == 1
    assert "s4" not in log.partition("has changed")[2]
    assert Counter(status for status, _ in answers) == {200: len(answers)}
    assert process.returncode == 0


def test_another_model_rolls_once_and_an_edit_during_the_start_is_seen(sandbox: Sandbox) -> None:
    for name in ("a", "b"):
        (sandbox.folder / "models" / name).mkdir()
        (sandbox.folder / "models" / name / "weights").write_text(name)
    file = write_yaml(sandbox.folder / "services.yaml", service(uri="pvc://models"), runtime())
    with sandbox.running(file, "--pvc", f"models={sandbox.folder / 'models'}", "--watch") as process:
        read_until(process.stdout, "The dashboard is at")
        write_yaml(file, service(uri="pvc://models/a"), runtime())
        read_until(process.stderr, f"{file} has changed")
        eventually(lambda: has(sandbox) == ["a"], "the edited one is served")
        write_yaml(file, service(uri="pvc://models/b"), runtime())
        eventually(lambda: has(sandbox) == ["b"], "the next one is served")
        time.sleep(2)  # for what must not come
        _, log = stop(process)

    assert "are replaced" not in log


def test_a_folder_with_a_handler_is_served_as_it_is_and_an_edit_rolls(sandbox: Sandbox) -> None:
    folder = sandbox.folder / "first"
    folder.mkdir()
    program = "def handle(data, context):\n    return data and [{'version': 1}]\n"
    (folder / "handler.py").write_text(program)

    with sandbox.running(folder, "--watch", environment={"PYTHONPATH": str(TORCHLESS)}) as process:
        read_until(process.stdout, "Ctrl-C stops it.")
        with asking(sandbox, clients=2, path="/v1/models/first:predict") as answers:
            eventually(lambda: len(answers) > 20, "the first one answers")
            (folder / ".handler.py.swp").write_text("an editor's")
            (folder / "handler.py").write_text(program.replace("1", "2"))
            eventually(lambda: answers[-1][1] == {"predictions": [{"version": 2}]}, "the second one answers")
            log = read_until(process.stderr, f"first serves the change of {folder / 'handler.py'}")
            (folder / "handler.py").write_text("raise ValueError('an edit')\n")
            read_until(process.stderr, "failed (exit code 4)")
            assert sandbox.ask(HOST, "/v1/models/first:predict", {"instances": [1]})[1] == answers[-1][1]
        stop(process)

    assert Counter(status for status, _ in answers) == {200: len(answers)}
    assert [str(answer) for _, answer in answers if answer not in (answers[0][1], answers[-1][1])] == []
    assert f"{folder / 'handler.py'} has changed; the pods of first-predictor are replaced" in log
    assert "first/kserve-container#2 is ready" in log
    assert ".handler.py.swp" not in log


def has(sandbox: Sandbox) -> list[str] | None:
    answer: dict[str, list[str]] = sandbox.ask(HOST, PREDICT, {"instances": [1]})[1]
    return answer.get("has")


def test_calls_of_grpc_outlive_a_roll(sandbox: Sandbox) -> None:
    """They share one connection, which the old server closes when it has answered; none of them is lost."""
    archive = write_mar(sandbox.folder / "models/model-store/m.mar", manifest(modelName="m"), {"handler.py": HANDLER})
    assert archive.is_file()
    (sandbox.folder / "models/weights").unlink()
    models = {"m": {"1.0": {"marName": "m.mar", "minWorkers": 1, "maxWorkers": 1}}}
    (sandbox.folder / "models/config").mkdir()
    (sandbox.folder / "models/config/config.properties").write_text(
        f"model_store=/mnt/models/model-store\nmodels={json.dumps(models)}\n"
    )

    def served(value: str) -> dict[str, Any]:
        body = with_variable(value)
        body["spec"]["predictor"]["model"] |= {"modelFormat": {"name": "pytorch"}, "runtime": "isvc-mar"}
        return body

    file = write_yaml(sandbox.folder / "services.yaml", served("1"))
    environment = {"PYTHONPATH": str(TORCHLESS)}
    with sandbox.running(
        file, "--pvc", f"models={sandbox.folder / 'models'}", "--watch", environment=environment
    ) as process:
        announced = read_until(process.stdout, "Ctrl-C stops it.")
        address = re.search(r"gRPC: (\S+)", announced)
        assert address
        with calling(address[1]) as answers:
            eventually(lambda: len(answers) > 20, "the old one answers")
            write_yaml(file, served("2"))
            eventually(
                lambda: len(set(answers)) > 1 and len(set(answers[-10:])) == 1 and answers[-1] != answers[0],
                "the new one answers",
            )
        _, log = stop(process)

    assert all(answer.isdigit() for answer in answers), (Counter(answers), log)


@contextmanager
def calling(address: str) -> Iterator[list[str]]:
    """Clients that ask on one connection; the answers, or the status of what has failed."""
    answers: list[str] = []
    ended = threading.Event()
    tensor = pb.ModelInferRequest.InferInputTensor(
        name="x", datatype="BYTES", shape=[1], contents=pb.InferTensorContents(bytes_contents=[b"hello"])
    )

    def ask(stub: GRPCInferenceServiceStub) -> None:
        while not ended.is_set():
            try:
                response = stub.ModelInfer(pb.ModelInferRequest(model_name="m", inputs=[tensor]), timeout=30)
                answers.append(response.outputs[0].contents.bytes_contents[0].decode())
            except grpc.RpcError as error:
                answers.append(f"{error.code()}: {error.details()}")

    with grpc.insecure_channel(address) as channel:
        stub = GRPCInferenceServiceStub(channel)
        threads = [threading.Thread(target=ask, args=[stub]) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            yield answers
        finally:
            ended.set()
            for thread in threads:
                thread.join()


def test_a_component_that_comes_or_goes_takes_over_without_losing_a_request(sandbox: Sandbox) -> None:
    container = {"image": "unused", "command": ["python", str(TRANSFORMER)], "args": ["--model_name=fake"]}
    wrapped = service()
    wrapped["spec"]["transformer"] = {"containers": [container]}
    file = write_yaml(sandbox.folder / "services.yaml", service(), runtime())
    with sandbox.running(file, "--pvc", f"models={sandbox.folder / 'models'}", "--watch") as process:
        read_until(process.stdout, "Ctrl-C stops it.")
        with asking(sandbox, clients=2) as answers:
            write_yaml(file, wrapped, runtime())
            eventually(lambda: replaced(answers, None, "transformed"), "the transformer answers")
            write_yaml(file, service(), runtime())
            eventually(lambda: replaced(answers, None, "pid"), "the predictor answers")
        stop(process)

    assert Counter(status for status, _ in answers) == {200: len(answers)}


def test_a_service_that_is_added_is_announced_as_at_the_start_and_one_that_is_removed_is_not_served(
    sandbox: Sandbox,
) -> None:
    """It is renamed, and renamed again to what it was called before."""
    request = '{"instances": [1]}'
    (sandbox.folder / "sample.json").write_text(request)
    file = write_yaml(sandbox.folder / "services.yaml", service("first"), runtime())
    with sandbox.running(file, "--pvc", f"models={sandbox.folder / 'models'}", "--watch") as process:
        announced = {"first": read_until(process.stdout, "Ctrl-C stops it.")}
        for name in ("second", "first again"):
            write_yaml(file, service(name.removesuffix(" again")), runtime())
            announced[name] = read_until(process.stdout, "  curl ")
            if name == "second":
                status, _ = sandbox.ask("second.default.example.com", PREDICT, json.loads(request))
                gone, answer = sandbox.ask(HOST, PREDICT, json.loads(request))
        _, stderr = stop(process)

    def address(name: str, text: str) -> str:
        assert f"\n{name} is served\n" in text
        url = f"http://127.0.0.1:{sandbox.port}/default/{name}{PREDICT}"
        return f"  curl -X POST {url} -T {sandbox.folder / 'sample.json'}\n"

    assert all(address(name.removesuffix(" again"), text) in text for name, text in announced.items())
    assert (status, gone) == (200, 404)
    assert "no service has the host 'first.default.example.com'" in answer["error"]
    assert re.findall(".* is not served any more.*", stderr) == [
        f"{name} is not served any more; its pods end with their last request" for name in ("first", "second")
    ]


def test_a_service_that_is_removed_while_it_is_asked_for_its_models_ends_nothing(sandbox: Sandbox) -> None:
    mute = service("mute", env={"MUTE": "1", "SLOW": "1"})
    mute["spec"]["predictor"]["terminationGracePeriodSeconds"] = 1
    file = write_yaml(sandbox.folder / "services.yaml", service("first"), mute, runtime())
    with sandbox.running(file, "--pvc", f"models={sandbox.folder / 'models'}", "--watch") as process:
        read_until(process.stdout, "first is served")
        request = {"instances": [1]}
        eventually(
            lambda: sandbox.ask("mute.default.example.com", PREDICT, request)[0] == 200, "the other one is ready"
        )
        write_yaml(file, service("first"), runtime())
        read_until(process.stdout, "Ctrl-C stops it.")

        assert sandbox.ask(HOST, PREDICT, request)[0] == 200
        stop(process)
