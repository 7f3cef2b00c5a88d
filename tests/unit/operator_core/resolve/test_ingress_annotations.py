"""A service's annotations are copied to its Ingress if they affect only its own requests, or are allowed."""

from __future__ import annotations

import json

import pytest

from isvc_operator.config import IngressConfig, OperatorConfig, parse_config
from isvc_operator.resolve.ignored import refused_annotations
from isvc_operator.resolve.ingress_annotations import IngressAnnotations, ingress_annotations
from tests.support.builders import a_service, the_children

NGINX = "nginx.ingress.kubernetes.io/"


def of(name: str, value: str = "x", *allowed: str) -> IngressAnnotations:
    return ingress_annotations({name: value}, IngressConfig(allowed_service_annotations=allowed))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (f"{NGINX}proxy-read-timeout", "600"),
        (f"{NGINX}proxy-body-size", "8m"),
        (f"{NGINX}backend-protocol", "HTTP"),
        (f"{NGINX}whitelist-source-range", "10.0.0.0/8,192.168.0.0/16"),
        (f"{NGINX}cors-allow-origin", "https://*.example.com, http://localhost:3000"),
        ("projectcontour.io/response-timeout", "infinity"),
        ("haproxy.org/timeout-server", "600s"),
        ("haproxy-ingress.github.io/timeout-server", "10m"),
        ("traefik.ingress.kubernetes.io/service.sticky.cookie", "true"),
        ("cert-manager.io/cluster-issuer", "letsencrypt-prod"),
    ],
)
def test_what_concerns_its_own_requests_is_passed_on(name: str, value: str) -> None:
    assert of(name, value) == IngressAnnotations({name: value})


@pytest.mark.parametrize(
    "name",
    [
        f"{NGINX}server-alias",
        f"{NGINX}configuration-snippet",
        f"{NGINX}server-snippet",
        f"{NGINX}stream-snippet",
        f"{NGINX}rewrite-target",
        f"{NGINX}use-regex",
        f"{NGINX}canary",
        f"{NGINX}canary-weight",
        f"{NGINX}permanent-redirect",
        f"{NGINX}mirror-target",
        f"{NGINX}default-backend",
        f"{NGINX}session-cookie-domain",
        "nginx.org/server-snippets",
        "nginx.org/mergeable-ingress-type",
        "traefik.ingress.kubernetes.io/router.entrypoints",
        "traefik.ingress.kubernetes.io/router.priority",
        "haproxy.org/backend-config-snippet",
        "haproxy.org/route-acl",
        "haproxy-ingress.github.io/server-alias",
        "haproxy-ingress.github.io/config-backend",
        "projectcontour.io/tls-cert-namespace",
        "projectcontour.io/ingress.class",
        "konghq.com/host-aliases",
        "alb.ingress.kubernetes.io/group.name",
        "alb.ingress.kubernetes.io/conditions.x",
        "kubernetes.io/ingress.class",
        "cert-manager.io/common-name",
        "cert-manager.io/alt-names",
        "acme.cert-manager.io/http01-edit-in-place",
        "external-dns.alpha.kubernetes.io/hostname",
        "getambassador.io/config",
        "k8s.apisix.apache.org/http-redirect",
        "haproxy.router.openshift.io/rewrite-target",
    ],
)
def test_what_may_affect_the_requests_of_others_is_left_out_and_reported(name: str) -> None:
    assert of(name) == IngressAnnotations({}, (name,))
    (told,) = refused_annotations(a_service(annotations={name: "x"}), IngressConfig())
    assert told.startswith(f"annotation {name} (left out")


@pytest.mark.parametrize("name", ["team", "prometheus.io/scrape", "serving.kserve.io/deploymentMode", "example.com/x"])
def test_what_no_ingress_controller_reads_is_left_out_without_a_word(name: str) -> None:
    assert of(name) == IngressAnnotations({})
    assert list(refused_annotations(a_service(annotations={name: "x"}), IngressConfig())) == []


@pytest.mark.parametrize(
    "value", ["600; }", "600\n", "{", '"', "$host", "a`b", "(x)", "\u202e", "x" * 2000, "<script>", "a\\b", "#"]
)
def test_a_value_that_could_be_a_line_of_a_configuration_is_left_out(value: str) -> None:
    name = f"{NGINX}proxy-body-size"

    assert of(name, value) == IngressAnnotations({}, (name,))


@pytest.mark.parametrize("pattern", [f"{NGINX}rewrite-target", f"{NGINX}*", "*"])
def test_what_the_administrator_allows_is_passed_on_whatever_its_value(pattern: str) -> None:
    name = f"{NGINX}rewrite-target"

    assert of(name, "/$1", pattern) == IngressAnnotations({name: "/$1"})


@pytest.mark.parametrize(
    "name",
    [
        f"{NGINX}auth-url",
        f"{NGINX}auth-tls-secret",
        f"{NGINX}auth-snippet",
        f"{NGINX}modsecurity-snippet",
        "traefik.ingress.kubernetes.io/router.middlewares",
        "konghq.com/plugins",
        "alb.ingress.kubernetes.io/inbound-cidrs",
        "alb.ingress.kubernetes.io/security-groups",
        "nginx.org/policies",
        "haproxy.org/auth-type",
    ],
)
def test_without_what_guards_it_a_service_is_not_published(name: str) -> None:
    assert of(name).guards == (name,)
    assert "Ingress" not in the_children(a_service(annotations={name: "x"}))


def test_the_ingress_has_the_administrators_and_over_them_the_services_own() -> None:
    ours, theirs = f"{NGINX}proxy-read-timeout", f"{NGINX}server-alias"
    given = {"annotations": {ours: "1", theirs: "our.example.com"}, "allowedServiceAnnotations": ["team"]}
    config = parse_config({"ingress": json.dumps(given)})
    service = a_service(annotations={ours: "2", theirs: "your.example.com", "team": "a", "other": "b"})

    annotations = the_children(service, config=config)["Ingress"]["metadata"]["annotations"]

    assert annotations == {ours: "2", theirs: "our.example.com", "team": "a"}


def test_what_is_disallowed_for_all_children_is_for_the_ingress() -> None:
    name = f"{NGINX}proxy-read-timeout"
    config = parse_config({"inferenceService": json.dumps({"serviceAnnotationDisallowedList": [name]})})

    ingress = the_children(a_service(annotations={name: "2"}), config=config)["Ingress"]

    assert ingress["metadata"]["annotations"] == {}


@pytest.mark.parametrize("name", ["external-dns.alpha.kubernetes.io/hostname", "getambassador.io/config"])
def test_what_leads_hosts_to_a_service_object_does_not_reach_it(name: str) -> None:
    """Also from a component, which the Ingress has nothing of."""
    service = a_service(annotations={"a": "b"}, predictor={"annotations": {name: "your.example.com"}})

    assert the_children(service)["Service"]["metadata"]["annotations"] == {"a": "b"}
    assert [told.split()[1] for told in refused_annotations(service, IngressConfig())] == [name]


def test_nothing_is_reported_for_a_cluster_local_service() -> None:
    service = a_service(
        annotations={f"{NGINX}server-alias": "x"}, labels={"networking.kserve.io/visibility": "cluster-local"}
    )

    assert list(refused_annotations(service, OperatorConfig().ingress)) == []
