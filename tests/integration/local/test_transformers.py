"""``isvc run`` with a transformer and an explainer: additional processes that get the predictor's address."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer

from isvc.run.container import LOOPBACK
from isvc.run.endpoints import Endpoints
from isvc.run.ingress import service_port
from tests.support.isvc_process import Sandbox, read_until, stop
from tests.support.local_services import runtime, service, write_yaml

PROGRAM = Path(__file__).parents[2] / "support" / "fake_transformer.py"
HOST = "first.default.example.com"
PREDICT, EXPLAIN = "/v1/models/fake:predict", "/v1/models/fake:explain"


def with_wrappers(**wrappers: Any) -> dict[str, Any]:
    body = service()
    body["spec"] |= wrappers
    return body


def wrapper(**container: Any) -> dict[str, Any]:
    given = {"image": "unused", "command": ["python", str(PROGRAM)], "args": ["--model_name=fake"], **container}
    return {"containers": [given]}


def arguments(sandbox: Sandbox, body: dict[str, Any]) -> list[str | Path]:
    file = write_yaml(sandbox.folder / "services.yaml", body, runtime())
    return [file, "--pvc", f"models={sandbox.folder / 'models'}"]


def request(sandbox: Sandbox) -> list[str | Path]:
    return ["--request", sandbox.folder / "request.json"]


def test_requests_go_through_the_transformer_and_what_is_explained_to_the_explainer(sandbox: Sandbox) -> None:
    body = with_wrappers(transformer=wrapper(), explainer=wrapper())
    with sandbox.running(*arguments(sandbox, body)) as process:
        read_until(process.stdout, "Ctrl-C stops it.")

        assert sandbox.ask(HOST, PREDICT, {"instances": [1]}) == (200, {"predictions": [1], "transformed": True})
        assert sandbox.ask(HOST, EXPLAIN, {"instances": [1]}) == (200, {"predictions": [1], "explained": True})
        status, answer = sandbox.ask(f"first-predictor.{HOST.partition('.')[2]}", PREDICT, {"instances": [1]})
        assert (status, answer["service"]) == (200, "first")
        stop(process)


def test_a_transformer_that_asks_for_a_model_that_its_predictor_lacks_is_told_of(sandbox: Sandbox) -> None:
    told = []
    for name in ("other", "fake"):
        body = with_wrappers(transformer=wrapper(args=[f"--model_name={name}"]))
        with sandbox.running(*arguments(sandbox, body)) as process:
            told.append([line for line in read_until(process.stdout, "Ctrl-C").splitlines() if "asks for" in line])
            stop(process)

    line = "  (the transformer asks for other, and its predictor has fake; set the transformer's --model_name)"
    assert told == [[line], []]


def test_requests_go_through_a_transformer_in_the_predictors_pod_which_reaches_the_server_on_localhost(
    sandbox: Sandbox,
) -> None:
    flags = ["--model_name=fake", "--http_port=8000", "--predictor_host=localhost:8080"]
    (container,) = wrapper(name="transformer-container", args=flags)["containers"]
    body = service()
    body["spec"]["predictor"]["containers"] = [container]
    with sandbox.running(*arguments(sandbox, body)) as process:
        read_until(process.stdout, "Ctrl-C stops it.")

        assert sandbox.ask(HOST, PREDICT, {"instances": [1]}) == (200, {"predictions": [1], "transformed": True})
        stop(process)


def test_a_transformer_that_exits_is_reported_while_the_predictor_still_starts(sandbox: Sandbox) -> None:
    slow = runtime(command=["python", "-c", "import time\ntime.sleep(600)"], args=["--http-port=8080"])
    broken = wrapper(command=["python", "-c", "raise SystemExit('no module named digits')"])
    file = write_yaml(sandbox.folder / "services.yaml", with_wrappers(transformer=broken), slow)
    done = sandbox.run(file, "--pvc", f"models={sandbox.folder / 'models'}", *request(sandbox))

    assert done.returncode == 1
    assert "isvc: first/transformer/kserve-container failed (exit code 1)" in done.stderr


def test_a_package_that_a_transformer_lacks_is_named_with_how_to_install_it(sandbox: Sandbox) -> None:
    (sandbox.folder / "model.py").write_text("import not_installed.part\n")
    body = with_wrappers(transformer=wrapper(command=["python", str(sandbox.folder / "model.py")]))
    without = sandbox.run(*arguments(sandbox, body), *request(sandbox))
    (sandbox.folder / "requirements.txt").touch()
    beside = sandbox.run(*arguments(sandbox, body), *request(sandbox))
    body = with_wrappers(transformer=wrapper(command=["python", "-m", "not_installed"]))
    program = sandbox.run(*arguments(sandbox, body), *request(sandbox))

    def advice(stderr: str) -> str:
        return stderr.rpartition("failed (exit code 1): ")[2].removesuffix("\n")

    package, pip = "the package with the module not_installed", f"{sys.executable} -m pip install"
    file = sandbox.folder / "requirements.txt"
    install = f"install {package} (on a cluster: in the image), such as: {pip} not_installed"
    assert advice(without.stderr) == install
    assert advice(program.stderr) == f"type the command in the folder that has not_installed, or {install}"
    assert advice(beside.stderr) == f"add {package} to {file} if it is not there, and run: {pip} -r {file}"


def test_a_transformer_that_is_in_another_folder_is_said_to_be(sandbox: Sandbox, monkeypatch: Any) -> None:
    monkeypatch.chdir(sandbox.folder)
    body = with_wrappers(transformer=wrapper(command=["python", "model.py"]))

    done = sandbox.run(*arguments(sandbox, body), *request(sandbox))

    why = f"there is no model.py in {sandbox.folder}; type the command in the folder that has it"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, f"isvc: first/transformer/kserve-container: {why}")


def test_an_image_alone_cannot_be_run_here_and_the_message_says_what_to_do(sandbox: Sandbox) -> None:
    done = sandbox.run(
        *arguments(sandbox, with_wrappers(transformer={"containers": [{"image": "registry.example/t"}]}))
    )

    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "isvc: first/transformer/kserve-container has no command, and the entry point of its image is not known here; "
        "give it with the flag --image 'registry.example/t=python model.py', or give the container a command that "
        "works on this machine as well (in the runtime or the service), such as [python, model.py]"
    )


@pytest.mark.parametrize("name", ["registry.example:5000/t:1", "registry.example:5000/t"])
def test_an_image_runs_by_the_command_that_is_given_for_it(sandbox: Sandbox, name: str) -> None:
    image = {"image": "registry.example:5000/t:1", "args": ["--model_name=fake"]}
    body = with_wrappers(transformer={"containers": [image]})
    flags = [*arguments(sandbox, body), "--image", f"{name}=python {PROGRAM}"]

    done = sandbox.run(*flags, *request(sandbox))

    assert (done.returncode, '"transformed": true' in done.stdout) == (0, True), done.stderr


async def test_a_service_without_a_ready_pod_says_so_and_keeps_its_port() -> None:
    async def answer(request: web.BaseRequest) -> web.Response:
        return web.Response(text=request.raw_path)

    server = RawTestServer(answer)
    endpoints = Endpoints()
    async with server, service_port("first-predictor", endpoints) as port, aiohttp.ClientSession() as session:
        for _ in range(2):
            async with session.get(f"http://{LOOPBACK}:{port}/v1/models") as response:
                assert response.status == 503
                assert (await response.json())["error"].startswith("first-predictor has no ready pod")
            assert server.port
            endpoints.use({server.port: lambda: True})
            async with session.get(f"http://{LOOPBACK}:{port}/v1/models") as response:
                assert (response.status, await response.text()) == (200, "/v1/models")
            endpoints.use({})


def test_a_predictor_that_still_loads_is_waited_for_although_its_transformer_has_failed(sandbox: Sandbox) -> None:
    broken = wrapper(command=["python", "-c", "raise SystemExit('no module named digits')"])
    gate = sandbox.folder / "gate"
    waits = runtime(readinessProbe={"exec": {"command": ["test", "-e", str(gate)]}, "periodSeconds": 1})
    file = write_yaml(sandbox.folder / "services.yaml", with_wrappers(transformer=broken), waits)
    with sandbox.running(file, "--pvc", f"models={sandbox.folder / 'models'}") as process:
        read_until(process.stderr, "it is started again in")
        gate.touch()
        log = read_until(process.stderr, "first/kserve-container is ready")
        said = read_until(process.stdout, "Ctrl-C stops it.")
        stop(process)

    assert "Ctrl-C" not in log
    assert "is served" not in said
