"""`isvc migrate plan` on a real API server with what KServe leaves there; nothing of KServe runs."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest

from isvc.commands import main
from tests.integration.cli.conftest import TEAM
from tests.support.apiserver import ApiServer, wait_until_served
from tests.support.kserves_children import kserves_deployment

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def planned(server: ApiServer, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The plan for the namespace of the service."""
    assert main(["migrate", "plan", f"--kubeconfig={server.kubeconfig}", f"--namespace={TEAM}", "-o", "json"]) == 2
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_what_stays_with_kserve_is_counted_in_all_namespaces_without_its_webhooks(
    server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """KServe converts LLMInferenceServices by a webhook, which does not answer once it is stopped."""
    server.send("POST", CRDS, a_crd("LLMInferenceService", "v1alpha1", stored="v1alpha2"))
    server.send("POST", CRDS, a_crd("LocalModelCache", stored="v1alpha1", scope="Cluster"))
    server.send("POST", CRDS, a_crd("TrainedModel", stored="v1alpha1"))
    wait_until_served(server)
    group = "/apis/serving.kserve.io"
    for name in ("one", "two"):
        llm = {"apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService", "metadata": {"name": name}}
        server.send("POST", f"{group}/v1alpha2/namespaces/default/llminferenceservices", llm)
    cache = {"apiVersion": "serving.kserve.io/v1alpha1", "kind": "LocalModelCache", "metadata": {"name": "bert"}}
    server.send("POST", f"{group}/v1alpha1/localmodelcaches", cache)

    lines = [(line["level"], line["text"]) for line in planned(server, capsys)["cluster"]]

    assert [(level, re.split(" does not exist| stay with KServe", text)[0]) for level, text in lines] == [
        ("blocking", "Deployment kserve-controller-manager in namespace kserve"),
        ("warning", "2 LLMInferenceService"),
        ("warning", "1 LocalModelCache"),
    ]


def test_a_canary_blocks_until_the_command_of_its_line_was_run(
    server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    service = server.get("inferenceservice", "torchserve", f"--namespace={TEAM}")
    server.send("POST", f"/apis/apps/v1/namespaces/{TEAM}/deployments", kserves_deployment(service))
    request = '--patch={"spec": {"predictor": {"canaryTrafficPercent": 20}}}'
    server.kubectl("patch", "inferenceservice", "torchserve", f"--namespace={TEAM}", "--type=merge", request)

    (found,) = planned(server, capsys)["services"]
    ((level, text),) = [(line["level"], line["text"]) for line in found["lines"]]
    server.kubectl(*shlex.split(text.partition("then run: ")[2])[1:])

    assert (level, text.partition(":")[0]) == ("blocking", "spec.predictor.canaryTrafficPercent")
    (found,) = planned(server, capsys)["services"]
    assert found["level"] == "warning"
    assert "canary" not in json.dumps(found)


def a_crd(kind: str, *others: str, stored: str, scope: str = "Namespaced") -> dict[str, Any]:
    """A CRD of KServe's whose objects have the version ``stored``, and are converted to ``others`` by nobody."""
    plural = f"{kind.lower()}s"
    webhook = {"url": "https://127.0.0.1:1/convert"}
    return {
        "metadata": {"name": f"{plural}.serving.kserve.io"},
        "spec": {
            "group": "serving.kserve.io",
            "names": {"kind": kind, "plural": plural},
            "scope": scope,
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": version == stored,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
                for version in (*others, stored)
            ],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"clientConfig": webhook, "conversionReviewVersions": ["v1"]},
            },
        },
    }
