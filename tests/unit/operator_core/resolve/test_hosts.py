"""Host names and URLs (docs/kserve.md)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from isvc_operator.config import IngressConfig, PathIngress
from isvc_operator.errors import InvalidSpec
from isvc_operator.resolve.hosts import Hosts, SharedPath, resolve_hosts
from tests.support.builders import a_service

ADDRESS = "http://torchserve-predictor.models.svc.cluster.local"
DASHED = "{{ .Name }}-{{ .Namespace }}.{{ .IngressDomain }}"


def hosts_of(config: IngressConfig, **service: Any) -> Hosts:
    metadata = a_service(**service).metadata
    return resolve_hosts(metadata, {"predictor": f"{metadata.name}-predictor"}, address=ADDRESS, config=config)


def test_a_service_has_hosts_in_the_dotted_and_the_dashed_form() -> None:
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


def test_a_further_host_that_is_too_long_for_dns_is_shortened() -> None:
    name, namespace = "sentiment-classifier-prod-v2", "kubeflow-user-example-com"
    cut = "sentiment-classifier-prod-v2-predictor-kubeflow-user-e-cdea5779"

    assert len(cut) == 63
    assert hosts_of(IngressConfig(), name=name, namespace=namespace) == Hosts(
        service=(f"{name}.{namespace}.example.com", f"{name}-{namespace}.example.com"),
        components={"predictor": (f"{name}-predictor.{namespace}.example.com", f"{cut}.example.com")},
        url=f"http://{name}.{namespace}.example.com",
        urls={"predictor": f"http://{name}-predictor.{namespace}.example.com"},
        address=ADDRESS,
    )


def test_a_further_host_that_is_no_host_name_is_left_out() -> None:
    config = IngressConfig(additional_domain_templates=("{{ .Name }}.{{ .Labels.team }}.{{ .IngressDomain }}",))

    assert hosts_of(config).service == ("torchserve.models.example.com",)
    assert hosts_of(config, labels={"team": "vision"}).service[1:] == ("torchserve.vision.example.com",)


def test_the_host_of_the_default_template_is_shortened_for_the_url_and_served_as_it_is_written_too() -> None:
    name, namespace = "sentiment-classifier-prod-v2", "kubeflow-user-example-com"
    config = IngressConfig(domain_template=DASHED, additional_domain_templates=())

    hosts = hosts_of(config, name=name, namespace=namespace)

    cut = "sentiment-classifier-prod-v2-predictor-kubeflow-user-e-cdea5779"
    assert hosts.components == {
        "predictor": (f"{cut}.example.com", f"{name}-predictor-{namespace}.example.com"),
    }
    assert hosts.urls == {"predictor": f"http://{cut}.example.com"}


def test_two_services_whose_long_hosts_begin_alike_have_different_ones() -> None:
    config = IngressConfig(domain_template=DASHED, additional_domain_templates=())

    found = {hosts_of(config, name="a" * 40, namespace="b" * 40 + last).url for last in "cde"}

    assert len(found) == 3
    assert found == {hosts_of(config, name="a" * 40, namespace="b" * 40 + last).url for last in "edc"}


@pytest.mark.parametrize(
    "template",
    [
        "{{ .Name }}_{{ .Namespace }}.x",
        "{{ .Labels.absent }}.{{ .IngressDomain }}",
        "{{ .Name }}.{{ .Unknown }}",
        "-{{ .Name }}",
    ],
)
def test_a_default_template_that_makes_no_host_name_is_refused(template: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        hosts_of(IngressConfig(domain_template=template))

    assert caught.value.reason == "InvalidPredictorSpec"
    assert str(caught.value).endswith(
        f", made by the domain template {template!r}, is not a host name (labels of a-z, 0-9 and '-', and a domain "
        "with room for 8 characters within 253); use another template"
    )


def of_length(size: int) -> Hosts:
    """The hosts of a service whose predictor has one of this length."""
    domain = (("d" * 40 + ".") * 10)[: size - len("torchserve-predictor.")]
    config = IngressConfig(
        ingress_domain=domain, domain_template="{{ .Name }}.{{ .IngressDomain }}", additional_domain_templates=()
    )
    return hosts_of(config)


def test_a_host_may_have_253_characters() -> None:
    (host,) = of_length(253).components["predictor"]

    assert len(host) == 253


def test_the_first_label_of_a_longer_host_is_shortened_and_the_host_as_written_is_not_served() -> None:
    (host,) = of_length(256).components["predictor"]

    assert len(host) == 253
    assert re.fullmatch(r"torchser-[0-9a-f]{8}\.[d.]+", host)


def test_a_domain_that_leaves_no_room_for_a_name_is_refused() -> None:
    with pytest.raises(InvalidSpec, match="a domain with room for 8 characters within 253"):
        of_length(272)


ADDITIONAL = IngressConfig(additional_ingress_domains=("b.test", "c.test", "b.test"))


def test_the_service_has_its_hosts_on_every_additional_domain_too() -> None:
    hosts = hosts_of(ADDITIONAL)

    assert hosts.service == (
        "torchserve.models.example.com", "torchserve-models.example.com",
        "torchserve.models.b.test", "torchserve-models.b.test",
        "torchserve.models.c.test", "torchserve-models.c.test",
    )  # fmt: skip
    assert hosts.components == hosts_of(IngressConfig()).components
    assert hosts.url == "http://torchserve.models.example.com"


def test_a_template_without_the_domain_gives_no_host_twice() -> None:
    config = IngressConfig(
        domain_template="{{ .Name }}.x", additional_domain_templates=(), additional_ingress_domains=("b.test",)
    )

    assert hosts_of(config).service == ("torchserve.x",)


SHARED = IngressConfig(enable_gateway_api=True, path_template="/serving/{{ .Namespace }}/{{.Name}}", url_scheme="https")


def test_the_url_has_the_path_on_the_shared_host() -> None:
    hosts = hosts_of(SHARED)

    assert hosts.path == SharedPath("example.com", "/serving/models/torchserve")
    assert hosts.url == "https://example.com/serving/models/torchserve"
    assert hosts.urls == {"predictor": "http://torchserve-predictor.models.example.com"}
    assert hosts.service == hosts_of(IngressConfig()).service


def test_a_path_of_an_older_service_is_left_to_it() -> None:
    path = "example.com/serving/models/torchserve"

    hosts = resolve_hosts(a_service().metadata, {}, address=ADDRESS, config=SHARED, taken={path: "a/b"})

    assert (hosts.path, hosts.displaced, hosts.url) == (None, True, "https://torchserve.models.example.com")


def test_a_cluster_local_service_has_no_path_and_no_additional_host() -> None:
    config = SHARED.model_copy(update={"additional_ingress_domains": ("b.test",)})

    hosts = hosts_of(config, labels={"networking.kserve.io/visibility": "cluster-local"})

    assert (hosts.service, hosts.path, hosts.external) == ((), None, False)


def test_an_ingress_has_a_path_on_the_shared_host_only_if_its_controller_removes_it() -> None:
    ingress = SHARED.model_copy(update={"enable_gateway_api": False})

    assert hosts_of(ingress).path is None
    assert hosts_of(ingress.model_copy(update={"path_ingress": PathIngress(annotations={})})).path == SharedPath(
        "example.com", "/serving/models/torchserve"
    )
