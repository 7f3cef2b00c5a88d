"""The same cause has the same exit code in every command, as the table of docs/commands/README.md says."""

from __future__ import annotations

from pathlib import Path

import pytest

from isvc.commands import main
from tests.support.local_services import service, write_yaml
from tests.support.ports import free_port

Captured = pytest.CaptureFixture[str]

URL = f"http://127.0.0.1:{free_port()}"
BODY = '{"instances": [1]}'
FAILED, INVALID = 1, 2
CAUSES: dict[str, tuple[int, list[str]]] = {
    "a file that does not exist": (
        INVALID,
        [
            "run gone.yaml",
            "render gone.yaml",
            "validate gone.yaml",
            "diff gone.yaml",
            f"predict bert --url {URL} -d @gone.json",
            f"bench {URL}/ -d @gone.json",
            "pack gone",
            "inspect gone",
            "migrate plan --manifests gone.yaml",
        ],
    ),
    "a file without an object": (
        INVALID,
        ["run empty.yaml", "render empty.yaml", "validate empty.yaml", "diff empty.yaml"],
    ),
    "a flag with a wrong value": (
        INVALID,
        [
            "run service.yaml --http-port 0",
            "render service.yaml -n A",
            "validate service.yaml -o xml",
            "diff service.yaml -n A",
            "predict bert -n A",
            "status -n A",
            "logs bert --tail 0",
            "diagnose bert -n A",
            "dashboard --port 0",
            "doctor -n A",
            "new model",
            "inspect service.yaml -o xml",
            "bench bert -n A",
            "migrate plan -n A",
            "completion sh",
        ],
    ),
    "certificates that do not exist": (
        INVALID,
        [f"predict bert --url {URL} --cacert gone -d {BODY}", "bench https://127.0.0.1:1/ --cacert gone"],
    ),
    "a kubeconfig that does not exist": (
        INVALID,
        [
            f"{command} --kubeconfig gone"
            for command in ("diff service.yaml", "predict bert", "status", "logs bert", "diagnose bert", "dashboard",
                            "doctor", "bench bert", "migrate plan")
        ],
    ),
    "a server that does not answer": (
        FAILED,
        [
            f"predict bert --url {URL} --model bert -d {BODY}",
            f"bench {URL}/",
            *("status", "logs bert", "diagnose bert", "dashboard", "doctor", "migrate plan", "bench bert"),
        ],
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": URL}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    write_yaml(tmp_path / "config", config)
    write_yaml(tmp_path / "service.yaml", service())
    (tmp_path / "empty.yaml").touch()
    monkeypatch.setenv("KUBECONFIG", "config")


@pytest.mark.parametrize(("code", "commands"), CAUSES.values(), ids=CAUSES)
def test_a_cause_has_one_exit_code(code: int, commands: list[str], capsys: Captured) -> None:
    said = {}
    for command in commands:
        arguments = [BODY if word == "BODY" else word for word in command.replace(BODY, "BODY").split()]
        said[command] = main(arguments), capsys.readouterr()

    assert {command: ended for command, ended in said.items() if ended[0] != code} == {}


def test_in_a_diff_every_error_is_2() -> None:
    """As 1 says that something differs; kubectl's is like that."""
    assert main(["diff", "service.yaml"]) == INVALID
