"""``isvc validate``: what was found on stdout, and an exit code that says how bad it is."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
import yaml

from isvc.commands import main
from tests.support.local_services import runtime, service, write_yaml


def test_what_is_served_as_written_is_exit_code_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", str(write_yaml(tmp_path / "my.yaml", service(), runtime()))]) == 0

    assert capsys.readouterr() == ("ok: 1 service can be served as written\n", "")


def test_files_without_an_object_are_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty.yaml"
    empty.write_text("# nothing\n---\n")

    assert main(["validate", str(empty)]) == 2

    message = "the files contain no object; write an InferenceService, or name other files"
    assert capsys.readouterr() == (f"error: {message}\n", "")


def test_what_has_no_effect_is_exit_code_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = service()
    body["spec"]["predictor"]["minReplica"] = 2

    assert main(["validate", str(write_yaml(tmp_path / "my.yaml", body, runtime()))]) == 3

    assert capsys.readouterr().out == (
        "no effect: InferenceService first: spec.predictor.minReplica (did you mean minReplicas?)\n"
    )


def test_files_may_lie_in_folders_and_come_from_the_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "services" / "deep"
    folder.mkdir(parents=True)
    unserved = service("from-a-folder")
    unserved["spec"]["predictor"]["model"]["name"] = "mine"
    write_yaml(folder / "my.yml", unserved)
    (folder / "notes.txt").write_text("no YAML: [")
    unserved["metadata"]["name"] = "from-stdin"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(yaml.safe_dump(unserved).encode())))

    assert main(["validate", str(tmp_path), "-"]) == 2

    errors = [line.split(": spec.")[0] for line in capsys.readouterr().out.splitlines()]
    assert errors == [
        f"error: {folder}/my.yml: InferenceService from-a-folder",
        "error: standard input: InferenceService from-stdin",
    ]


def test_an_empty_folder_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", str(tmp_path)]) == 2

    assert capsys.readouterr().err == f"isvc: folder {tmp_path} has no file that ends with .yaml, .yml, .json\n"


def test_a_runtime_and_a_configuration_of_the_files_are_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = runtime()
    broken["spec"]["containers"][0]["env"] = [{"name": "PYTHONPATH", "value": "/mine"}]
    data = {"ingress": '{"domainTemplate": "{{ .Name }}_{{ .Namespace }}.test"}'}
    configuration = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "inferenceservice-config"}}
    first = write_yaml(tmp_path / "first.yaml", broken, service())
    second = write_yaml(tmp_path / "second.yaml", runtime(), service(), {**configuration, "data": data})

    assert main(["validate", str(first)]) == 2
    assert "ClusterServingRuntime fake: spec.containers[0].env: " in capsys.readouterr().out
    assert main(["validate", str(second)]) == 2
    assert "host 'first_default.test'" in capsys.readouterr().out
