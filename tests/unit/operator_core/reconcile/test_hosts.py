"""Two services request one host: the older one gets it, the younger one reports that and gets it later."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.config import IngressConfig, OperatorConfig
from isvc_operator.manifests import ServiceKey
from isvc_operator.observe.conditions import condition
from isvc_operator.observe.events import events_for
from tests.support.builders import NAMESPACE, NOW, a_runtime_body, a_service, a_service_body
from tests.support.reconcile_fixture import KEY, Cluster, cluster_with

OLDER = ServiceKey("other", "older")
ONE_HOST = "{{ .Labels.host }}.example.com"
ONLY_FURTHER = OperatorConfig(ingress=IngressConfig(additional_domain_templates=(ONE_HOST,)))
DEFAULT = OperatorConfig(ingress=IngressConfig(domain_template=ONE_HOST, additional_domain_templates=()))


def older() -> dict[str, Any]:
    body = a_service_body(OLDER.name, namespace=OLDER.namespace, uid="older", labels={"host": "bank"})
    body["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    return body


def two_services(config: OperatorConfig) -> Cluster:
    body = a_service_body(labels={"host": "bank"})
    body["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    cluster = cluster_with(body, a_runtime_body(), config=config)
    cluster.api.put(older())
    return cluster


def hosts(cluster: Cluster) -> list[str]:
    ingress = cluster.api.get("Ingress", NAMESPACE, KEY.name)
    return [rule["host"] for rule in ingress["spec"]["rules"]] if ingress else []


async def test_an_additional_host_of_an_older_service_is_left_to_it_and_reported() -> None:
    cluster = two_services(ONLY_FURTHER)

    await cluster.settle()

    assert hosts(cluster) == ["torchserve.models.example.com", "torchserve-predictor.models.example.com"]
    ready = cluster.condition("IngressReady")
    assert (ready["status"], ready["reason"]) == ("True", "HostTaken")
    assert ready["message"] == (
        "older services have hosts that this one requests: bank.example.com (InferenceService other/older); "
        "rename this one, or let the administrator change domainTemplate, additionalDomainTemplates or pathTemplate"
    )
    assert cluster.service["status"]["url"] == "http://torchserve.models.example.com"
    (event,) = [event for event in cluster.api.events if event["reason"] == "HostTaken"]
    assert (event["type"], event["message"]) == ("Warning", ready["message"])


async def test_without_the_host_that_its_url_shows_a_service_is_not_ready() -> None:
    cluster = two_services(DEFAULT)

    await cluster.settle()

    assert hosts(cluster) == []
    ready = cluster.condition("IngressReady")
    assert (ready["status"], ready["reason"]) == ("False", "HostTaken")
    assert "url" not in cluster.service["status"]
    assert cluster.service["status"]["components"] == {}


async def test_the_younger_service_gets_the_host_of_a_deleted_older_one() -> None:
    cluster = two_services(DEFAULT)
    await cluster.settle()
    cluster.cache.hosts.take_changed()

    cluster.api.remove("InferenceService", *OLDER)
    cluster.cache.remove(older())

    assert cluster.cache.hosts.take_changed() == {KEY}
    await cluster.settle()
    assert set(hosts(cluster)) == {"bank.example.com"}
    assert cluster.condition("IngressReady")["status"] == "True"


async def test_finding_the_owner_of_a_host_sends_no_request() -> None:
    cluster = two_services(ONLY_FURTHER)

    await cluster.settle()

    assert [call.path for call in cluster.api.calls if call.method == "GET"] == []


@pytest.mark.parametrize(
    ("ready", "ingress", "reasons"),
    [
        (condition("Ready", True), condition("IngressReady", True), ["InferenceServiceReady"]),
        (
            condition("Ready", True),
            condition("IngressReady", True, "HostTaken", "a"),
            ["InferenceServiceReady", "HostTaken"],
        ),
        (
            condition("Ready", False, "HostTaken", "a"),
            condition("IngressReady", False, "HostTaken", "a"),
            ["HostTaken"],
        ),
    ],
)
def test_a_taken_host_is_reported_once(ready: Any, ingress: Any, reasons: list[str]) -> None:
    status = a_service(status={"conditions": [ready.as_dict(), ingress.as_dict()]}).status

    assert [event["reason"] for event in events_for(a_service(), status, NOW)] == reasons
    assert events_for(a_service(status=status.as_dict()), status, NOW) == []
