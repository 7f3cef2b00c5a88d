"""A cluster with everything that is installed, and the goldens of what commands print for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.apiserver import ApiServer, install_crds, running
from tests.support.namespace import Namespace, story_service
from tests.support.output_goldens import OutputGoldens, output_goldens

MANIFESTS = Path(__file__).parents[3] / "manifests"
HOME = "isvc-system"
TEAM = "team"
INGRESS_CLASS = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "IngressClass",
    "metadata": {"name": "contour", "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}},
    "spec": {"controller": "projectcontour.io/contour"},
}


@pytest.fixture(scope="module")
def server(assets: Path) -> Iterator[ApiServer]:
    """A cluster with the shipped manifests, and an operator that its Deployment's controller says is ready."""
    with running(assets) as found:
        install_crds(found)
        found.kubectl("apply", f"--kustomize={MANIFESTS / 'base'}")
        found.kubectl("apply", f"--kustomize={MANIFESTS / 'runtimes'}")
        found.kubectl("apply", "--filename=-", stdin=json.dumps(INGRESS_CLASS))
        Namespace(found, HOME).play_finished_rollout("isvc-operator")
        found.create_namespace(TEAM)
        Namespace(found, TEAM).apply(story_service())
        yield found


@pytest.fixture
def goldens(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> OutputGoldens:
    """What commands print for programs."""
    return output_goldens(request, capsys)
