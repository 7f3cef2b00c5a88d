"""The token of the operator's service account expires, and its file has another one by then."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.integration.operator_core.conftest import new_namespace
from tests.support.apiserver import ApiServer, Refused, install_runtime
from tests.support.namespace import Namespace, story_service
from tests.support.operator_process import in_pod, metrics_of
from tests.support.ports import free_port
from tests.support.waiting import eventually

WITHIN = 60.0  # seconds, on a busy machine
ACCOUNT = "operator"
REFUSED = re.compile(r'^isvc_operator_api_requests_total\{code="401",verb="create"\} (\S+)$', re.MULTILINE)


def test_a_token_that_is_refused_is_read_again(apiserver: ApiServer, tmp_path: Path) -> None:
    install_runtime(apiserver)
    namespace, port = new_namespace(apiserver), free_port()
    create_account(apiserver, namespace)
    first, second = (token_bound_to(apiserver, namespace, name) for name in ("first", "second"))
    environment, token = in_pod(apiserver, tmp_path), tmp_path / "token"
    token.write_text(first)
    flags = [f"--health-port={port}", f"--namespace={namespace.name}"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.operator_in_pod", str(tmp_path), *flags],
            env={**os.environ, **environment},
            stdout=log,
            stderr=log,
        )
    try:
        namespace.apply(story_service("one"))
        eventually(lambda: namespace.find("deployment", "one-predictor"), "the operator works", WITHIN)
        namespace.wait_for_condition("Ready", "Unknown", service="one")
        apiserver.send("DELETE", f"/api/v1/namespaces/{namespace.name}/secrets/first")
        eventually(lambda: is_refused(apiserver, namespace, first), "the first token is refused", WITHIN)
        token.write_text(second)
        namespace.apply(story_service("two"))
        namespace.wait_for_condition("Ready", "Unknown", service="two", within=WITHIN)
        refusals = [float(count) for count in REFUSED.findall(metrics_of(port))]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(WITHIN)

    assert namespace.find("ingress", "two") is not None
    assert sum(refusals) >= 1


def create_account(server: ApiServer, namespace: Namespace) -> None:
    """A service account that may do everything."""
    server.send("POST", f"/api/v1/namespaces/{namespace.name}/serviceaccounts", {"metadata": {"name": ACCOUNT}})
    binding = {
        "metadata": {"name": f"{namespace.name}-{ACCOUNT}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "namespace": namespace.name, "name": ACCOUNT}],
    }
    server.send("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)


def token_bound_to(server: ApiServer, namespace: Namespace, secret: str) -> str:
    """A token that is valid for as long as this secret exists."""
    place = f"/api/v1/namespaces/{namespace.name}"
    found = server.send("POST", f"{place}/secrets", {"metadata": {"name": secret}})
    bound = {"apiVersion": "v1", "kind": "Secret", "name": secret, "uid": found["metadata"]["uid"]}
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"boundObjectRef": bound}}
    token: str = server.send("POST", f"{place}/serviceaccounts/{ACCOUNT}/token", request)["status"]["token"]
    return token


def is_refused(server: ApiServer, namespace: Namespace, token: str) -> bool:
    try:
        server.send("GET", f"/api/v1/namespaces/{namespace.name}/services", token=token)
    except Refused as error:
        return error.reason == "Unauthorized"
    return False
