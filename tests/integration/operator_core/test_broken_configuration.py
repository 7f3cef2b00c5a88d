"""A ConfigMap that cannot be used, on a real API server: while the operator runs, and when it starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from isvc_operator.api.names import CONFIG_MAP
from tests.support.apiserver import ApiServer, install_runtime
from tests.support.namespace import Namespace, story_service
from tests.support.operator_process import OPERATOR, got, metrics_of, operator
from tests.support.ports import free_port
from tests.support.waiting import eventually

BROKEN = "inferenceservice-config: ingress: Invalid JSON: EOF while parsing an object at line 1 column 1"
WRITES = {"create", "update", "patch", "delete"}


def configured(folder: Path, domain: str) -> None:
    (folder / "ingress").write_text(f'{{"ingressDomain": "{domain}"}}')


def reload_was_successful(port: int) -> bool:
    return "\nisvc_operator_config_last_reload_successful 1.0\n" in metrics_of(port)


def warned(home: Namespace) -> list[str]:
    """What `kubectl describe` says in the Events of the ConfigMap."""
    lines = home.kubectl("describe", "configmap", CONFIG_MAP).splitlines()
    return [line.split(maxsplit=4)[4] for line in lines if line.split()[:2] == ["Warning", "InvalidConfig"]]


def host(namespace: Namespace, service: str) -> str:
    ingress = namespace.wait_for("ingress", service)
    return str(ingress["spec"]["rules"][0]["host"])


@pytest.mark.parametrize("election", [(), ("--leader-elect",)], ids=["alone", "as the leader"])
def test_an_operator_that_starts_with_it_touches_nothing_until_it_is_corrected(
    apiserver: ApiServer,
    namespace: Namespace,
    another_namespace: Namespace,
    tmp_path: Path,
    election: tuple[str, ...],
) -> None:
    install_runtime(apiserver)
    home, folder, port, log = another_namespace, tmp_path / "config", free_port(), tmp_path / "operator.log"
    folder.mkdir()
    (folder / "ingress").write_text("{")
    home.kubectl("create", "configmap", CONFIG_MAP, "--from-literal=ingress={")
    namespace.apply(story_service("first"))
    since = apiserver.position()
    flags = (f"--config-dir={folder}", f"--home={home.name}", f"--health-port={port}", f"--namespace={namespace.name}")

    with operator(apiserver, log, *flags, *election):
        eventually(lambda: warned(home), "the ConfigMap has an Event", otherwise=log.read_text)
        namespace.apply(story_service("second"))
        said = f"{BROKEN}; correct it. Until then no service is reconciled"
        assert warned(home) == [said]
        assert said in log.read_text()
        assert got(port, "/readyz") == (503, f"{BROKEN}\n")
        assert got(port, "/healthz") == (200, "ok\n")
        assert not reload_was_successful(port)
        written = {call.resource for call in apiserver.calls(OPERATOR, since) if call.verb in WRITES}
        assert written - {"selfsubjectaccessreviews", "leases"} == {"events"}

        configured(folder, "mended.test")
        assert host(namespace, "first") == "first." + namespace.name + ".mended.test"
        assert host(namespace, "second") == "second." + namespace.name + ".mended.test"
        assert got(port, "/readyz") == (200, "ok\n")
        assert reload_was_successful(port)


def test_an_operator_that_runs_goes_on_with_the_one_before(
    apiserver: ApiServer, namespace: Namespace, another_namespace: Namespace, tmp_path: Path
) -> None:
    install_runtime(apiserver)
    home, folder, port, log = another_namespace, tmp_path / "config", free_port(), tmp_path / "operator.log"
    folder.mkdir()
    configured(folder, "before.test")
    home.kubectl("create", "configmap", CONFIG_MAP, "--from-literal=ingress={")
    flags = (f"--config-dir={folder}", f"--home={home.name}", f"--health-port={port}", f"--namespace={namespace.name}")

    with operator(apiserver, log, *flags):
        namespace.apply(story_service("first"))
        assert host(namespace, "first") == "first." + namespace.name + ".before.test"
        assert reload_was_successful(port)

        (folder / "ingress").write_text("{")
        eventually(lambda: warned(home), "the ConfigMap has an Event", otherwise=log.read_text)
        said = f"{BROKEN}; correct it. Until then the previous configuration stays in use"
        assert warned(home) == [said]
        assert said in log.read_text()
        assert not reload_was_successful(port)
        assert got(port, "/readyz") == (200, "ok\n")
        namespace.apply(story_service("second"))
        assert host(namespace, "second") == "second." + namespace.name + ".before.test"

        configured(folder, "after.test")
        eventually(lambda: host(namespace, "second").endswith(".after.test"), "the corrected one is used")
        assert reload_was_successful(port)
