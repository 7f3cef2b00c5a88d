"""Host names and URLs (contract §4.7)."""

from __future__ import annotations

from typing import Any

import pytest

from isvc_operator.api.base import ObjectMeta
from isvc_operator.config import IngressConfig
from isvc_operator.errors import InvalidSpec
from isvc_operator.resolve.hosts import Hosts, resolve_hosts
from tests.support.builders import a_service

ADDRESS = "http://torchserve-predictor.models.svc.cluster.local"
DASHED = "{{ .Name }}-{{ .Namespace }}.{{ .IngressDomain }}"


def hosts_of(config: IngressConfig, **service: Any) -> Hosts:
    metadata = a_service(**service).metadata
    return resolve_hosts(metadata, {"predictor": f"{metadata.name}-predictor"}, ADDRESS, config)


def test_a_service_answers_under_the_dotted_and_the_dashed_form() -> None:
    assert hosts_of(IngressConfig()) == Hosts(
        service=("torchserve.models.example.com", "torchserve-models.example.com"),
        components={
            "predictor": ("torchserve-predictor.models.example.com", "torchserve-predictor-models.example.com")
        },
        url="http://torchserve.models.example.com",
        urls={"predictor": "http://torchserve-predictor.models.example.com"},
        address=ADDRESS,
    )


def test_kserves_own_template_gives_kserves_urls() -> None:
    config = IngressConfig(domain_template=DASHED, additional_domain_templates=())

    assert hosts_of(config, name="raw-foo", namespace="default") == Hosts(
        service=("raw-foo-default.example.com",),
        components={"predictor": ("raw-foo-predictor-default.example.com",)},
        url="http://raw-foo-default.example.com",
        urls={"predictor": "http://raw-foo-predictor-default.example.com"},
        address=ADDRESS,
    )


def test_domain_scheme_labels_and_annotations_are_filled_in() -> None:
    config = IngressConfig(
        ingress_domain="ml.test",
        url_scheme="https",
        domain_template="{{ .Name }}.{{ .Labels.team }}.{{ .Annotations.stage }}.{{ .IngressDomain }}",
        additional_domain_templates=(),
    )

    hosts = hosts_of(config, labels={"team": "vision"}, annotations={"stage": "blue"})

    assert hosts.service == ("torchserve.vision.blue.ml.test",)
    assert hosts.url == "https://torchserve.vision.blue.ml.test"
    assert hosts.urls == {"predictor": "http://torchserve-predictor.vision.blue.ml.test"}


def test_two_templates_that_make_the_same_host_make_it_once() -> None:
    config = IngressConfig(domain_template=DASHED, additional_domain_templates=(DASHED,))

    assert hosts_of(config).service == ("torchserve-models.example.com",)


INTERNAL = {
    "the service is labelled so": (IngressConfig(), {"networking.kserve.io/visibility": "cluster-local"}),
    "the domain is the cluster's": (IngressConfig(ingress_domain="svc.cluster.local"), {}),
    "no Ingress is to be made": (IngressConfig(disable_ingress_creation=True), {}),
}


@pytest.mark.parametrize(("config", "labels"), INTERNAL.values(), ids=INTERNAL.keys())
def test_there_are_no_external_hosts_when(config: IngressConfig, labels: dict[str, str]) -> None:
    hosts = hosts_of(config, labels=labels)

    assert (hosts.external, hosts.service, hosts.components) == (False, (), {})
    assert hosts.address == ADDRESS


def test_another_visibility_is_external() -> None:
    assert hosts_of(IngressConfig(), labels={"networking.kserve.io/visibility": "public"}).external


def test_a_host_part_that_is_too_long_is_refused_with_its_template() -> None:
    name = "a" * 48

    with pytest.raises(InvalidSpec) as caught:
        hosts_of(IngressConfig(), name=name, namespace="a-namespace")

    assert caught.value.reason == "InvalidPredictorSpec"
    assert str(caught.value) == (
        f"host '{name}-predictor-a-namespace.example.com', made by the domain template '{DASHED}', is no DNS name "
        "(each part: a-z, 0-9 and '-', at most 63 characters); use a shorter name, or another template"
    )


@pytest.mark.parametrize(
    "template",
    [
        "{{ .Name }}_{{ .Namespace }}.x",
        "{{ .Labels.absent }}.{{ .IngressDomain }}",
        "{{ .Name }}.{{ .Unknown }}",
        "-{{ .Name }}",
    ],
)
def test_a_template_that_makes_no_dns_name_is_refused(template: str) -> None:
    with pytest.raises(InvalidSpec, match="is no DNS name"):
        hosts_of(IngressConfig(domain_template=template))


def test_a_host_may_have_253_characters_and_no_more() -> None:
    def length(size: int) -> Hosts:
        parts = ".".join(["a" * 61] * 3)
        domain = f"{parts}.{'b' * (size - len(parts) - len('n..'))}"
        config = IngressConfig(
            ingress_domain=domain, domain_template="n.{{ .IngressDomain }}", additional_domain_templates=()
        )
        return resolve_hosts(ObjectMeta(name="n", namespace="models"), {"predictor": "n-predictor"}, ADDRESS, config)

    assert len(length(248).service[0]) == 248
    with pytest.raises(InvalidSpec):
        length(254)
