"""What people with the roles view, edit and admin may do, once a controller has aggregated the shipped roles."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

from tests.support.apiserver import ApiServer, KubectlFailed
from tests.support.permissions import AGGREGATED
from tests.support.source_tree import ROOT
from tests.support.waiting import eventually

READ, WRITE = ("get", "list", "watch"), ("create", "delete", "deletecollection", "patch", "update")
NAMESPACED = ("inferenceservices", "servingruntimes")
OF_THE_CLUSTER = ("clusterservingruntimes", "clusterstoragecontainers")


@pytest.fixture(scope="module")
def aggregated(apiserver: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """The API server with the namespaces bank and shop, and the controller that aggregates roles."""
    built = ["bash", ROOT / "tests/cluster/program", "kube-controller-manager"]
    program = subprocess.run(built, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    command = [
        program, f"--kubeconfig={apiserver.kubeconfig}", "--controllers=clusterrole-aggregation-controller",
        "--leader-elect=false", "--secure-port=0",
    ]  # fmt: skip
    for name in ("bank", "shop"):
        apiserver.create_namespace(name)
    log = tmp_path_factory.mktemp("controllers") / "log"
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            apiserver.kubectl("apply", "--server-side", f"--filename={AGGREGATED}")
            eventually(lambda: has_rules(apiserver), "the roles are aggregated", otherwise=log.read_text)
            yield apiserver
        finally:
            process.terminate()


def has_rules(server: ApiServer) -> bool:
    found = [json.dumps(server.get("clusterrole", name).get("rules")) for name in ("view", "edit", "admin")]
    return all("clusterstoragecontainers" in rules for rules in found)


def allowed(server: ApiServer, user: str, *place: str, resources: tuple[str, ...]) -> set[tuple[str, str]]:
    """The verbs and resources that the user may use, as the API server's authorizer says."""
    found = set()
    for resource in resources:
        for verb in (*READ, *WRITE):
            command = ("auth", "can-i", verb, f"{resource}.serving.kserve.io", f"--as={user}", *place)
            try:
                server.kubectl(*command)
            except KubectlFailed:
                continue
            found.add((verb, resource))
    return found


def pairs(verbs: tuple[str, ...], resources: tuple[str, ...]) -> set[tuple[str, str]]:
    return {(verb, resource) for verb in verbs for resource in resources}


@pytest.mark.parametrize(("role", "verbs"), [("view", READ), ("edit", READ + WRITE), ("admin", READ + WRITE)])
def test_a_role_in_a_namespace_reaches_its_services_and_runtimes_there_and_nothing_else(
    aggregated: ApiServer, role: str, verbs: tuple[str, ...]
) -> None:
    user = f"{role}-of-bank"
    aggregated.kubectl("create", "rolebinding", user, "--namespace=bank", f"--clusterrole={role}", f"--user={user}")

    assert allowed(aggregated, user, "--namespace=bank", resources=NAMESPACED) == pairs(verbs, NAMESPACED)
    assert allowed(aggregated, user, "--namespace=shop", resources=NAMESPACED) == set()
    assert allowed(aggregated, user, resources=OF_THE_CLUSTER) == set()


def test_view_in_the_whole_cluster_reads_everything_and_writes_nothing(aggregated: ApiServer) -> None:
    aggregated.kubectl("create", "clusterrolebinding", "viewer", "--clusterrole=view", "--user=viewer")

    assert allowed(aggregated, "viewer", "--all-namespaces", resources=NAMESPACED) == pairs(READ, NAMESPACED)
    assert allowed(aggregated, "viewer", resources=OF_THE_CLUSTER) == pairs(READ, OF_THE_CLUSTER)


def test_everybody_may_read_the_runtimes_of_the_cluster_once_the_role_is_bound(aggregated: ApiServer) -> None:
    role = "isvc-operator-cluster-view"
    aggregated.kubectl("create", "clusterrolebinding", role, f"--clusterrole={role}", "--group=system:authenticated")

    found = allowed(aggregated, "somebody", resources=OF_THE_CLUSTER)
    aggregated.kubectl("delete", "clusterrolebinding", role)

    assert found == pairs(READ, OF_THE_CLUSTER)
