"""docs/see-inside.md shows what the commands print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from isvc.api_server import connect
from isvc.commands import main
from isvc.source.source import cluster_source
from isvc_operator.kube.requests import path_of
from tests.support.apiserver import ApiServer
from tests.support.builders import (
    a_container,
    a_deployment,
    a_pod,
    a_ready_pod,
    an_initializer,
    ended,
    the_shipped_runtime_body,
    waiting,
)
from tests.support.doc_shell import DocShell
from tests.support.fake_kubelet import fake_kubelet
from tests.support.limited_users import a_reader_of_all
from tests.support.permissions import AGGREGATED, shipped_roles
from tests.support.related_objects import a_related, an_event
from tests.support.stored_objects import store

PAGE = (Path(__file__).parents[3] / "docs" / "see-inside.md").read_text(encoding="utf-8")
TO_VIEW = "rbac.authorization.k8s.io/aggregate-to-view"
EXAMPLES = dict(re.findall(r"```console\n\$ isvc ([^\n]+)\n(.*?)(?:\$ echo \$\?\n1\n)?```", PAGE, flags=re.DOTALL))


def test_the_page_has_these_examples() -> None:
    assert [*EXAMPLES] == ["status", "status torchserve", "diagnose torchserve"]


@pytest.fixture(scope="module")
def runtime(apiserver: ApiServer) -> Iterator[None]:
    """The shipped runtime, in the cluster."""
    apiserver.apply("", the_shipped_runtime_body())
    yield
    apiserver.send("DELETE", path_of("ClusterServingRuntime", "", "kserve-torchserve"))


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("command", EXAMPLES)
def test_an_example_is_what_is_printed(
    apiserver: ApiServer, namespace: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = ended(4, "bert: RuntimeError: no licence for this model")
    server = {**a_container(state=waiting("CrashLoopBackOff"), before=before), "restartCount": 5}
    crashed = a_pod(initializer=an_initializer(), containers=[server])
    event = {**an_event("BackOff", "Back-off restarting failed container", type_="Warning"), "count": 12}
    store(apiserver, namespace, a_related(crashed, deployment=a_deployment(available=0), events=[event]))

    code = main([*command.split(), f"--kubeconfig={apiserver.kubeconfig}", f"--namespace={namespace}"])

    assert code == int(command.startswith("diagnose"))
    assert plain(capsys.readouterr().out.replace(namespace, "models")) == plain(EXAMPLES[command])


@pytest.mark.process
def test_the_lines_that_logs_shows_are_read(apiserver: ApiServer, namespace: str, tmp_path: Path) -> None:
    """One container's log is as long as lines may be; that of `-f` goes on until it is ended."""
    server = {**a_container(before=ended(4, "no licence")), "restartCount": 1}
    predictor = a_pod(initializer=an_initializer(), containers=[server])
    transformer = a_ready_pod("torchserve-transformer-1-a", component="transformer")
    related = a_related(predictor, transformer)
    related.service["spec"]["transformer"] = {"containers": [{"name": "kserve-container", "image": "i:1"}]}
    store(apiserver, namespace, related)
    until = {" torchserve -f ": " torchserve -f --tail 1 & sleep 3 "}
    shell = DocShell(tmp_path).of_cluster(apiserver, namespace).swapping(until)
    with fake_kubelet(apiserver, "node-1", tmp_path / "kubelet") as asked:
        said = shell.run("docs/see-inside.md: isvc logs torchserve")

    assert asked, said


@pytest.mark.process
def test_a_dashboard_says_where_it_is(apiserver: ApiServer, namespace: str, tmp_path: Path) -> None:
    until_said = "> said & until grep --silent --no-messages stops said; do sleep 0.1; done; cat said; kill $!; wait $!"
    ours = {"--namespace models": f"--namespace {namespace} {until_said}"}
    shell = DocShell(tmp_path).of_cluster(apiserver, namespace).swapping(ours)

    (said,) = shell.talk("docs/dashboard.md: $ isvc dashboard")

    assert said.printed == said.shown


async def test_who_has_view_with_what_is_added_to_it_sees_everything(
    apiserver: ApiServer, namespace: str, tmp_path: Path
) -> None:
    added = [role for role in shipped_roles(AGGREGATED) if TO_VIEW in role["metadata"]["labels"]]
    view = apiserver.send("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:aggregate-to-view")
    rules = [rule for role in (*added, view) for rule in role["rules"]]
    kubeconfig = a_reader_of_all(apiserver, namespace, rules, tmp_path)

    async with connect(str(kubeconfig)) as api, cluster_source(api, ()) as source:
        assert source.hidden() == []


def plain(text: str) -> str:
    """The text without what differs each time: ages, times of Events, and the width of columns."""
    aged = re.sub(r"\b\d+[smh](\d+[sm])?\b", "AGE", text)
    return re.sub(r"[ ]+", " ", re.sub(r"\S+T\S+Z BackOff: ", "", aged)).replace(" \n", "\n")
