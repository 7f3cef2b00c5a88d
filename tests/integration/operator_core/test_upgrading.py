"""The operator of the last release, and this one in its place, on a real API server: no pod template is changed.

The services are the goldens' cases that need no configuration of their own. Nothing runs pods here, so a test plays the
rollouts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from isvc_operator import __version__
from tests.golden.templates import changed_paths
from tests.support.apiserver import ApiServer, install_crds, running
from tests.support.last_release import Manifest, ReleasedCase, code_of_last_release, last_release
from tests.support.namespace import Namespace
from tests.support.operator_process import OPERATOR, operator
from tests.support.waiting import eventually

POLICY = "isvc-operator.io/upgrade-policy"
WAITING = "isvc-operator.io/waiting-template"
VERSION = "isvc-operator.io/version"
CONFIGURATION = ("ConfigMap", "ClusterStorageContainer")
BOOKS = {
    "labels": {"app.kubernetes.io/instance": "mine", "helm.sh/chart": "mine-1.0.0"},
    "annotations": {"argocd.argoproj.io/tracking-id": "mine", "kustomize.toolkit.fluxcd.io/prune": "disabled"},
}


def kept_in_books(case: ReleasedCase) -> ReleasedCase:
    """The case as tools apply it; they write on the service."""
    documents = [{**item, "metadata": {**item["metadata"], **BOOKS}} for item in case.documents]
    return replace(case, name="kept-in-books", documents=documents)


RELEASED = [case for case in last_release().cases if not {item["kind"] for item in case.documents} & {*CONFIGURATION}]
CASES = [*RELEASED, kept_in_books(next(case for case in RELEASED if case.name.startswith("story-bert")))]


@dataclass(frozen=True)
class Served:
    """A case, in a namespace of its own."""

    case: ReleasedCase
    namespace: Namespace

    @property
    def service(self) -> Manifest:
        (name,) = [item["metadata"]["name"] for item in self.case.documents if item["kind"] == "InferenceService"]
        return self.namespace.wait_for("inferenceservice", name)

    @property
    def names(self) -> list[str]:
        return [item["metadata"]["name"] for item in self.case.children if item["kind"] == "Deployment"]

    def deployments(self) -> list[Manifest]:
        return [self.namespace.wait_for("deployment", name) for name in self.names]

    def templates(self) -> list[Any]:
        return [item["spec"]["template"] for item in self.deployments()]

    def waits(self) -> bool:
        return any(item["type"] == "PodsOutdated" for item in self.service["status"]["conditions"])

    def is_reconciled(self) -> bool:
        """Whether this version has noted on each Deployment that it renders its template, or one that waits."""
        found = [item["metadata"]["annotations"] for item in self.deployments()]
        return all(item.get(WAITING, f"{item.get(VERSION)}/").startswith(f"{__version__}/") for item in found)


@pytest.fixture(scope="module")
def server(assets: Path) -> Iterator[ApiServer]:
    """An API server of its own: the runtimes of a release would be selected by services of other tests."""
    with running(assets) as server:
        install_crds(server)
        for runtime in last_release().runtimes:
            server.apply("", runtime)
        yield server


@pytest.fixture(scope="module")
def served(server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> list[Served]:
    """Services that the operator of the last release serves; it runs no more."""
    everything = [Served(case, _applied(case, server)) for case in CASES]
    with operator(server, tmp_path_factory.mktemp("old") / "operator.log", code=code_of_last_release()):
        for one in everything:
            for name in one.names:
                one.namespace.play_finished_rollout(name)
        for one in everything:
            eventually(lambda one=one: _is_observed(one.service), f"{one.case.name} has a status")  # type: ignore[misc]
    return everything


def _applied(case: ReleasedCase, server: ApiServer) -> Namespace:
    namespace = Namespace(server, case.name)
    server.create_namespace(case.name)
    for item in case.documents:
        written = {name: value for name, value in item["metadata"].items() if name != "uid"}
        namespace.apply({**item, "metadata": {**written, "namespace": case.name}})
    return namespace


def _is_observed(service: Manifest) -> bool:
    observed: bool = service.get("status", {}).get("observedGeneration") == service["metadata"]["generation"]
    return observed


def test_an_upgrade_from_the_last_release_changes_no_pod_template(
    server: ApiServer, served: list[Served], tmp_path: Path
) -> None:
    before = {one.case.name: one.templates() for one in served}
    changed = {"kept-in-books", *(case for cases in changed_paths().values() for case in cases)}
    since = server.position()

    with operator(server, tmp_path / "new.log"):
        for one in served:
            eventually(one.is_reconciled, f"{one.case.name} is reconciled")
        assert {one.case.name: one.templates() for one in served} == before
        waiting = [one for one in served if one.case.name in changed]
        for one in waiting:
            eventually(one.waits, f"{one.case.name} says what waits")
        assert [one for one in served if one.waits()] == waiting
        writes = [
            (call.namespace, call.name) for call in server.calls(OPERATOR, since) if call.resource == "deployments"
        ]
        assert sorted(writes) == sorted((one.case.name, name) for one in served for name in one.names)
        for one in waiting[:1]:
            _follows_the_version(one)


def _follows_the_version(one: Served) -> None:
    """With the policy Auto, its pods get the template of the new version."""
    before = one.templates()
    name = one.service["metadata"]["name"]
    one.namespace.kubectl("annotate", "inferenceservice", name, f"{POLICY}=Auto")

    eventually(lambda: not one.waits(), "nothing waits any more")
    assert one.templates() != before
