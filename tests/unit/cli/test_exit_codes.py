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
CAUSES: dict[str, list[str]] = {
    "a file that does not exist": [
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
    "a file without an object": ["run empty.yaml", "render empty.yaml", "validate empty.yaml", "diff empty.yaml"],
    "a flag with a wrong value": [
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
    "certificates that do not exist": [
        f"predict bert --url {URL} --cacert gone -d {BODY}",
        "bench https://127.0.0.1:1/ --cacert gone",
    ],
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_yaml(tmp_path / "service.yaml", service())
    (tmp_path / "empty.yaml").touch()


@pytest.mark.parametrize("commands", CAUSES.values(), ids=CAUSES)
def test_a_cause_has_one_exit_code(commands: list[str], capsys: Captured) -> None:
    said = {}
    for command in commands:
        arguments = [BODY if word == "BODY" else word for word in command.replace(BODY, "BODY").split()]
        said[command] = main(arguments), capsys.readouterr()

    assert {command: ended for command, ended in said.items() if ended[0] != 2} == {}
