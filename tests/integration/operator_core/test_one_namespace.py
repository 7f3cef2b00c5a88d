"""An operator with a Role alone: it serves its namespace, and requests nothing that is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.operator_core.conftest import new_namespace
from tests.support.apiserver import ApiServer, install_runtime
from tests.support.namespace import Namespace, story_service
from tests.support.one_namespace import rendered_for
from tests.support.operator_process import is_ready, operator
from tests.support.permissions import EVERYONES, granted_by, needed_for, of_account, refused
from tests.support.ports import free_port
from tests.support.waiting import eventually

IN_EACH = ("Role", "RoleBinding", "ServingRuntime")  # of the namespaces that an operator with Roles serves


@dataclass(frozen=True)
class Install:
    """The overlay, installed in `namespace`; its operator runs as the service account `account`."""

    namespace: Namespace
    account: str
    objects: list[dict[str, Any]]


@pytest.fixture(scope="module")
def install(apiserver: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Install]:
    home = tmp_path_factory.mktemp("namespaced")
    namespace = new_namespace(apiserver)
    objects = rendered_for(namespace.name, apiserver, home)
    apiserver.kubectl("apply", "--server-side", "--filename=-", stdin=yaml.safe_dump_all(objects))
    install_runtime(apiserver)  # what the operator must not even ask for
    account = replace(apiserver, kubeconfig=kubeconfig_of(namespace, home))
    flags = (f"--namespace={namespace.name}", f"--home={namespace.name}")
    with operator(account, home / "operator.log", *flags):
        name = f"system:serviceaccount:{namespace.name}:isvc-operator"
        yield Install(namespace, name, objects)


def test_a_namespace_without_the_role_does_not_hold_up_the_others_and_is_served_once_it_has_it(
    apiserver: ApiServer, tmp_path: Path
) -> None:
    first, second = new_namespace(apiserver), new_namespace(apiserver)
    objects = rendered_for(first.name, apiserver, tmp_path)
    apiserver.kubectl("apply", "--server-side", "--filename=-", stdin=yaml.safe_dump_all(objects))
    account = replace(apiserver, kubeconfig=kubeconfig_of(first, tmp_path))
    log, port = tmp_path / "operator.log", free_port()
    flags = (f"--namespace={first.name}", f"--namespace={second.name}", f"--home={first.name}", f"--health-port={port}")
    with operator(account, log, *flags):
        first.apply_story()
        first.wait_for("deployment", "torchserve-predictor")
        eventually(lambda: is_ready(port), "the operator is ready")
        told = [line for line in log.read_text().splitlines() if f"namespace {second.name} " in line]

        second.apply(*(item for item in moved(objects, second.name) if item["kind"] in IN_EACH))
        second.apply_story()
        second.wait_for("deployment", "torchserve-predictor")

    remedy = "create it, and allow this account to list and watch there (docs/install.md)"
    assert [remedy in line for line in told] == [True]
    assert f"namespace {second.name} can be watched now" in log.read_text()


def moved(objects: list[dict[str, Any]], namespace: str) -> list[dict[str, Any]]:
    """The objects in another namespace; the account of a binding stays."""
    return [{**item, "metadata": {**item["metadata"], "namespace": namespace}} for item in objects]


def kubeconfig_of(namespace: Namespace, home: Path) -> Path:
    """The administrator's kubeconfig with a token of the operator's service account instead."""
    config = json.loads(namespace.kubectl("config", "view", "--raw", "--output=json"))
    config["users"][0]["user"] = {"token": namespace.kubectl("create", "token", "isvc-operator").strip()}
    (home / "kubeconfig").write_text(json.dumps(config))
    return home / "kubeconfig"


def test_nothing_of_it_lies_outside_of_the_namespace(install: Install) -> None:
    places = {(item["kind"], item["metadata"].get("namespace")) for item in install.objects}

    assert places == {
        (kind, install.namespace.name)
        for kind in ("ServiceAccount", "Role", "RoleBinding", "ConfigMap", "Deployment", "ServingRuntime")
    }


def test_a_service_gets_ready_and_no_request_is_refused(apiserver: ApiServer, install: Install) -> None:
    namespace = install.namespace

    namespace.apply_story()
    namespace.play_finished_rollout()
    namespace.wait_for_condition("Ready", "True")
    namespace.kubectl("delete", "deployment", "torchserve-predictor")  # it is seen, and put back
    namespace.play_finished_rollout()
    namespace.wait_for_condition("Ready", "True")

    events = of_account(install.account, apiserver.audit_events())
    assert refused(events) == []
    roles = [item for item in install.objects if item["kind"] == "Role"]
    assert needed_for(events) - EVERYONES - granted_by(*roles) == set()


def test_a_runtime_of_the_cluster_is_not_known_there(install: Install) -> None:
    namespace = install.namespace
    namespace.kubectl("delete", "servingruntime", "kserve-torchserve")
    service = story_service("asking")
    service["spec"]["predictor"]["model"]["runtime"] = "kserve-torchserve"

    namespace.apply(service)
    found = namespace.wait_for_condition("PredictorReady", "False", service="asking")

    assert "'kserve-torchserve' of spec.predictor.model.runtime does not exist; available: isvc-mar" in found["message"]


def test_a_service_whose_secrets_may_not_be_read_names_the_role_and_goes_on_once_it_is_bound(install: Install) -> None:
    namespace = install.namespace
    (binding,) = [
        item
        for item in install.objects
        if item["kind"] == "RoleBinding" and item["metadata"]["name"] == "isvc-operator-credentials"
    ]
    namespace.kubectl("delete", "rolebinding", "isvc-operator-credentials")
    service = story_service("with-secrets")
    service["spec"]["predictor"]["model"]["storageUri"] = "s3://bucket/model"

    namespace.apply(service)
    found = namespace.wait_for_condition("PredictorReady", "False", service="with-secrets")
    namespace.kubectl("apply", "--server-side", "--filename=-", stdin=yaml.safe_dump(binding))
    namespace.kubectl("create", "serviceaccount", "default")

    remedy = f"bind the operator's role isvc-operator-credentials in namespace {namespace.name} (docs/install.md)"
    assert found["message"].endswith(f"to allow it, {remedy}")
    namespace.wait_for("deployment", "with-secrets-predictor")
