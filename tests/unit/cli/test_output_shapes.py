"""What commands print for programs: lists are always there, and documents are whole."""

from __future__ import annotations

import json

import pytest
import yaml

from isvc.commands import main
from isvc.view.diagnosis import Diagnosis
from isvc.view.json_shape import as_json
from isvc.view.values import HealthStatus
from tests.support.build_cache import ROOT

Captured = pytest.CaptureFixture[str]
SERVICE = str(ROOT / "examples/bert/inferenceservice.yaml")


def test_the_findings_of_a_healthy_service_are_an_empty_list() -> None:
    healthy = Diagnosis(namespace="team", name="bert", health=next(iter(HealthStatus)), healthy=True)

    assert as_json(healthy) == {
        "namespace": "team", "name": "bert", "health": next(iter(HealthStatus)).value, "healthy": True, "findings": [],
    }  # fmt: skip


def test_render_prints_the_same_objects_as_yaml_and_as_a_list(capsys: Captured) -> None:
    assert main(["render", SERVICE]) == 0
    documents = [*yaml.safe_load_all(capsys.readouterr().out)]
    assert main(["render", SERVICE, "-o", "json"]) == 0

    assert json.loads(capsys.readouterr().out) == {"apiVersion": "v1", "kind": "List", "items": documents}
    assert documents
