"""``isvc run`` if it cannot start: one line that says what to change, exit code 2, and nothing left behind."""

from __future__ import annotations

import json
import socket
import tempfile
from pathlib import Path
from typing import Any

import pytest

from isvc.commands import main
from tests.support.local_services import runtime, service, write_yaml
from tests.support.ports import free_port


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which a run creates its own."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def run(folder: Path, flags: list[str], *documents: dict[str, Any]) -> int:
    """The exit code of a run of these documents, with a folder for the claim ``models``."""
    (folder / "models").mkdir()
    (folder / "request.json").write_text("{}")
    file = write_yaml(folder / "services.yaml", *documents)
    served = ["--http-port", str(free_port())]  # of a cluster on this machine, 8080 is its ingress
    return main(["run", str(file), "--pvc", f"models={folder / 'models'}", *served, *flags])


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--expect", "{}"], "isvc: --expect requires --request"),
        (
            ["--watch", "--request", "/absent.json"],
            "isvc: --watch and --request cannot be used together; leave out one of them",
        ),
        (["--pvc", "models"], "isvc: --pvc models: write --pvc CLAIM=DIR"),
        (
            ["--pvc", "spare=/", "--pvc", "spare=/tmp"],
            "isvc: --pvc spare=/tmp: spare has the folder / already; name one of them",
        ),
        (["--pvc", "../x=."], "isvc: --pvc ../x=.: '../x' cannot be the name of a PersistentVolumeClaim"),
        (["--pvc", "models=/absent"], "isvc: --pvc models=/absent: /absent is not a folder"),
        (["--request", "/absent.json"], "isvc: /absent.json cannot be read: No such file or directory"),
        (
            ["--runtimes", "/absent"],
            "isvc: /absent is not a folder; --runtimes requires one with runtimes as YAML files",
        ),
        (["--config-dir", "/absent"], "isvc: configuration folder /absent does not exist; mount the ConfigMap there"),
    ],
)
def test_a_flag_that_cannot_be_used_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    assert run(tmp_path, flags, service(), runtime()) == 2

    assert capsys.readouterr() == ("", f"{message}\n")


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([runtime()], "contains no InferenceService to serve"),
        (
            [service(uri="pvc://other"), runtime()],
            "the claim 'other'; name a folder for it: --pvc other=DIR (given: models)",
        ),
        ([service()], "isvc: InferenceService first: no runtime serves model format 'fake'"),
        (
            [{"kind": "InferenceService", "metadata": {"name": "first"}}],
            "has apiVersion None; write apiVersion: serving.kserve.io/v1beta1",
        ),
    ],
)
def test_a_file_that_cannot_be_served_is_refused(
    tmp_path: Path,
    temporary: Path,
    capsys: pytest.CaptureFixture[str],
    documents: list[dict[str, Any]],
    message: str,
) -> None:
    assert run(tmp_path, [], *documents) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert list(temporary.iterdir()) == []


def test_a_service_that_only_a_cluster_can_reach_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = service()
    body["metadata"]["labels"] = {"networking.kserve.io/visibility": "cluster-local"}

    assert run(tmp_path, [], body, runtime()) == 2

    assert "InferenceService first can only be called inside a cluster; remove its label" in capsys.readouterr().err


def test_a_service_whose_hosts_others_have_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    only = {"domainTemplate": "all.example.com", "additionalDomainTemplates": []}
    (tmp_path / "config").mkdir()
    (tmp_path / "config/ingress").write_text(json.dumps(only))

    stopped = service("first")
    stopped["metadata"]["annotations"] = {"serving.kserve.io/stop": "true"}
    flags = ["--config-dir", str(tmp_path / "config")]
    assert run(tmp_path, flags, service("second"), stopped, runtime()) == 2

    warned, _, refused = capsys.readouterr().err.splitlines()
    assert warned == (
        "isvc: no effect: InferenceService second: host all.example.com belongs to InferenceService default/first"
    )
    assert refused.startswith(
        "isvc: InferenceService second has no host: its hosts belong to other services: all.example.com"
    )


def test_a_service_that_would_go_without_what_guards_it_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = service()
    body["metadata"]["annotations"] = {"nginx.ingress.kubernetes.io/auth-url": "https://login"}

    assert run(tmp_path, [], body, runtime()) == 2

    refused = capsys.readouterr().err.splitlines()[-1]
    assert refused.startswith(
        "isvc: InferenceService first has annotations that restrict access and are not allowed: "
        "nginx.ingress.kubernetes.io/auth-url"
    )


def test_one_request_wants_one_service(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--request", str(tmp_path / "request.json")]

    assert run(tmp_path, flags, service("first"), service("second"), runtime()) == 2

    assert capsys.readouterr() == ("", "isvc: --request requires one InferenceService, and there are 2\n")


@pytest.mark.parametrize(
    "flags",
    [
        "--request absent.json",
        "--request request.json --expect {",
        f"--request request.json --expect {'[' * 100_000}",
        "other --request request.json",
    ],
    ids=["a request that is not there", "an expectation that is not JSON", "one that is deep", "a second service"],
)
def test_nothing_is_saved_where_something_else_is_refused(
    flags: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "request.json").write_text("{}")
    for name in ("model", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "handler.py").write_text("def handle(data, context): ...")

    assert main(["run", "model", "--save", "saved.yaml", *flags.split()]) == 2

    assert capsys.readouterr().err.startswith("isvc: ")
    assert not (tmp_path / "saved.yaml").exists()


@pytest.mark.parametrize("flag", ["--http-port", "--dashboard-port"])
def test_a_port_in_use_is_said_alone_and_nothing_is_saved(
    flag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "handler.py").write_text("def handle(data, context): ...")
    ports = {"--http-port": free_port(), "--dashboard-port": free_port()}
    with socket.create_server(("127.0.0.1", ports[flag])):
        given = [str(word) for pair in ports.items() for word in pair]

        assert main(["run", ".", "--pvc", "unused=.", "--save", "saved.yaml", *given]) == 1

    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"isvc: port {ports[flag]} is in use; choose another one: {flag} ")
    assert not (tmp_path / "saved.yaml").exists()


@pytest.mark.parametrize(("flags", "is_printed"), [([], True), (["-q"], False)])
def test_the_yaml_of_a_model_is_printed_unless_only_failures_are(
    flags: list[str],
    is_printed: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    async def ended(*_: object, **__: object) -> None:
        """It has served."""

    monkeypatch.setattr("isvc.run.run.serve", ended)
    (tmp_path / "handler.py").write_text("def handle(data, context): ...")

    main(["run", str(tmp_path), "--http-port", str(free_port()), *flags])

    assert ("kind: InferenceService" in capfd.readouterr().err) is is_printed
