"""docs/validate.md shows what is printed of a folder of services."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from isvc.commands import main
from tests.support.doc_shell import exchanges, find
from tests.support.local_services import write_yaml
from tests.support.namespace import story_service


def a_service(name: str, *, model_format: str = "pytorch", **predictor: Any) -> dict[str, Any]:
    service = story_service()
    service["metadata"]["name"] = name
    service["spec"]["predictor"] |= predictor
    service["spec"]["predictor"]["model"]["modelFormat"]["name"] = model_format
    return service


def test_the_lines_of_the_page_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "services").mkdir()
    write_yaml(tmp_path / "services/bert.yaml", a_service("bert", minReplica=1))
    write_yaml(tmp_path / "services/gpt.yaml", a_service("gpt", minReplicas=2, maxReplicas=1))
    write_yaml(tmp_path / "services/t5.yaml", a_service("t5", model_format="pytroch"))
    _, (command, shown), (_, code) = exchanges(find("docs/validate.md: $ pip install").text)

    assert main(command.split()[1:]) == int(code)

    said = capsys.readouterr()
    expected = [line.removesuffix("…") for line in shown.splitlines()]
    printed = (said.out + said.err).splitlines()
    assert [line for line in expected if not any(found.startswith(line) for found in printed)] == [], printed
    assert len(printed) == len(expected)
