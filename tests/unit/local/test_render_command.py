"""``isvc render``: plain manifests on stdout, what has no effect on stderr, bad input as one line and exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from isvc.commands import main
from tests.support.local_services import runtime, service, write_yaml

SAMPLE = Path(__file__).parents[3] / "examples/bert/inferenceservice.yaml"


def test_a_folder_of_runtimes_replaces_the_shipped_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_yaml(tmp_path / "fake.yaml", runtime())

    assert main(["render", str(SAMPLE), "--runtimes", str(tmp_path)]) == 2

    assert "no runtime serves model format 'pytorch'" in capsys.readouterr().err


def test_the_configuration_is_read_from_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ingress").write_text('{"ingressDomain": "models.test", "additionalDomainTemplates": []}')

    assert main(["render", str(SAMPLE), "--config-dir", str(tmp_path)]) == 0

    *_, ingress = yaml.safe_load_all(capsys.readouterr().out)
    assert [rule["host"] for rule in ingress["spec"]["rules"]] == [
        "torchserve.default.models.test",
        "torchserve-predictor.default.models.test",
    ]


def config_map(data: object) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "inferenceservice-config"}, "data": data}


def test_the_configmap_may_lie_beside_the_services(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = {"ingress": '{"ingressDomain": "models.test", "additionalDomainTemplates": []}', "router": "{}"}
    file = write_yaml(tmp_path / "config.yaml", config_map(data))

    assert main(["render", str(SAMPLE), str(file)]) == 3

    printed = capsys.readouterr()
    *_, ingress = yaml.safe_load_all(printed.out)
    assert ingress["spec"]["rules"][0]["host"] == "torchserve.default.models.test"
    assert printed.err == (
        f"isvc: no effect: {file}: ConfigMap inferenceservice-config: router (an InferenceGraph is not served)\n"
    )


def test_a_configmap_that_cannot_be_used_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_yaml(tmp_path / "config.yaml", config_map(["a"]))

    assert main(["render", str(SAMPLE), str(file)]) == 2
    assert capsys.readouterr().err == (
        f"isvc: {file}: ConfigMap inferenceservice-config: data: must be of type object, not array; write its fields "
        "without dashes\n"
    )


def test_nothing_is_printed_when_one_of_the_services_cannot_be_served(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused, unserved = service("refused"), service("unserved")
    refused["spec"]["predictor"] |= {"minReplicas": 3, "maxReplicas": 2}
    unserved["spec"]["predictor"]["model"]["modelFormat"]["name"] = "abacus"
    file = write_yaml(tmp_path / "my.yaml", runtime(), service(), refused, unserved)

    assert main(["render", str(file)]) == 2

    printed = capsys.readouterr()
    assert printed.out == ""
    first, second = printed.err.splitlines()
    assert first == (
        f"isvc: {file}: InferenceService refused: spec.predictor.minReplicas: greater than maxReplicas; "
        "raise maxReplicas or lower minReplicas"
    )
    assert second.startswith("isvc: InferenceService unserved: no runtime serves model format 'abacus'")
