"""The operator's configuration: KServe's ConfigMap, its keys and ours."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from isvc_operator.config import (
    CacheConfig,
    CredentialsConfig,
    GcsConfig,
    InferenceServiceConfig,
    IngressConfig,
    OperatorConfig,
    ResourceConfig,
    S3Config,
    SecurityConfig,
    ServiceConfig,
    StorageInitializerConfig,
    parse_config,
)
from isvc_operator.errors import ConfigError

ROOT = Path(__file__).parents[3]
# The chart's is a template around that of base/.
SHIPPED = sorted(path for path in (ROOT / "manifests").glob("**/config.yaml") if "templates" not in path.parts)


def test_no_key_at_all_gives_the_defaults() -> None:
    assert parse_config({}) == OperatorConfig()


def test_every_key_that_is_read() -> None:
    data = {
        "ingress": {
            "ingressDomain": "ml.test",
            "domainTemplate": "{{ .Name }}.{{ .IngressDomain }}",
            "additionalDomainTemplates": [],
            "ingressClassName": "nginx",
            "urlScheme": "https",
            "disableIngressCreation": True,
            "annotations": {"a": "b"},
            "tlsSecretName": "tls",
            "additionalIngressDomains": ["ml.example.org"],
            "pathTemplate": "/{{ .Namespace }}/{{ .Name }}",
            "enableGatewayApi": True,
            "kserveIngressGateway": "gateways/kserve",
            "disableHTTPRouteTimeout": True,
        },
        "storageInitializer": {
            "image": "mine:1",
            "cpuRequest": "1",
            "cpuLimit": "2",
            "memoryRequest": "3Gi",
            "memoryLimit": "4Gi",
            "caBundleConfigMapName": "certificates",
            "caBundleVolumeMountPath": "/certs",
            "enableDirectPvcVolumeMount": True,
            "cache": {"hostPath": "/var/cache/models", "maxSize": "100Gi"},
        },
        "credentials": {
            "storageSpecSecretName": "stores",
            "storageSecretNameAnnotation": "example.com/secret",
            "s3": {"s3AccessKeyIDName": "ID", "s3SecretAccessKeyName": "KEY", "s3VerifySSL": "0", "s3CABundle": "/c"},
            "gcs": {"gcsCredentialFileName": "key.json"},
        },
        "security": {"autoMountServiceAccountToken": True},
        "inferenceService": {
            "serviceAnnotationDisallowedList": ["x"],
            "resource": {"cpuLimit": "", "memoryLimit": "1Gi"},
        },
        "service": {"serviceClusterIPNone": True},
    }

    assert parse_config({key: json.dumps(value) for key, value in data.items()}) == OperatorConfig(
        ingress=IngressConfig(
            ingress_domain="ml.test",
            domain_template="{{ .Name }}.{{ .IngressDomain }}",
            additional_domain_templates=(),
            ingress_class_name="nginx",
            url_scheme="https",
            disable_ingress_creation=True,
            annotations={"a": "b"},
            tls_secret_name="tls",
            additional_ingress_domains=("ml.example.org",),
            path_template="/{{ .Namespace }}/{{ .Name }}",
            enable_gateway_api=True,
            kserve_ingress_gateway="gateways/kserve",
            disable_http_route_timeout=True,
        ),
        storage_initializer=StorageInitializerConfig(
            image="mine:1",
            cpu_request="1",
            cpu_limit="2",
            memory_request="3Gi",
            memory_limit="4Gi",
            ca_bundle_config_map_name="certificates",
            ca_bundle_volume_mount_path="/certs",
            enable_direct_pvc_volume_mount=True,
            cache=CacheConfig(host_path="/var/cache/models", max_size="100Gi"),
        ),
        credentials=CredentialsConfig(
            storage_spec_secret_name="stores",
            storage_secret_name_annotation="example.com/secret",
            s3=S3Config(
                s3_access_key_id_name="ID", s3_secret_access_key_name="KEY", s3_verify_ssl="0", s3_ca_bundle="/c"
            ),
            gcs=GcsConfig(gcs_credential_file_name="key.json"),
        ),
        security=SecurityConfig(auto_mount_service_account_token=True),
        inference_service=InferenceServiceConfig(
            service_annotation_disallowed_list=("x",), resource=ResourceConfig(cpu_limit="", memory_limit="1Gi")
        ),
        service=ServiceConfig(service_cluster_ip_none=True),
    )


def test_keys_and_fields_of_kserves_that_nothing_here_needs_are_left_alone() -> None:
    data = {
        "deploy": '{"defaultDeploymentMode": "Serverless"}',
        "explainers": "not even JSON",
        "ingress": '{"ingressGateway": "knative-serving/knative-ingress-gateway", "ingressDomain": "ml.test"}',
        "storageInitializer": '{"enableModelcar": true, "uidModelcar": 1010}',
    }

    assert parse_config(data) == OperatorConfig(ingress=IngressConfig(ingress_domain="ml.test"))


@pytest.mark.parametrize(
    ("written", "read"), [("1", "1"), ("0.5", "0.5"), ("2e-1", "0.2"), ('"500m"', "500m"), ("null", "1")]
)
def test_a_quantity_may_be_a_number_and_null_is_the_default(written: str, read: str) -> None:
    config = parse_config({"storageInitializer": f'{{"cpuLimit": {written}}}'})

    assert config.storage_initializer.cpu_limit == read


def test_a_cache_may_have_its_size_in_bytes() -> None:
    config = parse_config({"storageInitializer": '{"cache": {"hostPath": "/cache", "maxSize": 2e9}}'})

    assert config.storage_initializer.cache is not None
    assert config.storage_initializer.cache.max_bytes == 2_000_000_000


NO_QUANTITY = "this is not a quantity; write one such as 500m or 2Gi"
UNUSABLE = {
    "no JSON": ({"ingress": "{"}, "inferenceservice-config: ingress: Invalid JSON"),
    "no object": ({"security": "[]"}, "inferenceservice-config: security: Input should be an object"),
    "no quantity": (
        {"storageInitializer": '{"memoryLimit": "much"}'},
        f"inferenceservice-config: storageInitializer.memoryLimit: {NO_QUANTITY}",
    ),
    "a quantity below zero": (
        {"inferenceService": '{"resource": {"cpuLimit": "-1"}}'},
        f"inferenceservice-config: inferenceService.resource.cpuLimit: {NO_QUANTITY}",
    ),
    "a value of another type": (
        {"storageInitializer": '{"cpuRequest": true}'},
        "inferenceservice-config: storageInitializer.cpuRequest: Input should be a valid string",
    ),
    "a Gateway without a namespace": (
        {"ingress": '{"enableGatewayApi": true, "kserveIngressGateway": "kserve"}'},
        "inferenceservice-config: ingress: kserveIngressGateway is not the NAMESPACE/NAME of a Gateway",
    ),
    "more hosts than an HTTPRoute can have": (
        {
            "ingress": json.dumps(
                {"enableGatewayApi": True, "additionalIngressDomains": [f"{n}.test" for n in range(8)]}
            )
        },
        "inferenceservice-config: ingress: domainTemplate, additionalDomainTemplates and additionalIngressDomains give "
        "a service up to 19 hosts, and an HTTPRoute can have 16; remove some",
    ),
    "a path that does not begin with a slash": (
        {"ingress": '{"pathIngress": {"path": "of/{{ .Path }}", "annotations": {}}}'},
        "inferenceservice-config: ingress.pathIngress.path: String should match pattern",
    ),
    "an ingress domain that is none": (
        {"ingress": '{"ingressDomain": "https://ML.example.com"}'},
        "inferenceservice-config: ingress.ingressDomain: https://ML.example.com is not a domain such as example.com",
    ),
    "a domain that is none": (
        {"ingress": '{"additionalIngressDomains": ["a.test", "B_"]}'},
        "inferenceservice-config: ingress.additionalIngressDomains: B_ is not a domain such as example.com",
    ),
    **{
        f"the path template {template}": (
            {"ingress": json.dumps({"pathTemplate": template})},
            "inferenceservice-config: ingress.pathTemplate: this is not a path of letters, digits, '-', '.', '_', '~', "
            "{{ .Namespace }} and {{ .Name }}; write one such as /serving/{{ .Namespace }}/{{ .Name }}",
        )
        for template in ("/", "a", "/a/", "/a//b", "/a/../b", "/{{ .Labels.x }}", "/{{ .Name }}?x")
    },
    "a cache without a size": (
        {"storageInitializer": '{"cache": {"hostPath": "/x", "maxSize": "much"}}'},
        "inferenceservice-config: storageInitializer.cache.maxSize: this is not a size; write a quantity such as 100Gi",
    ),
    "a cache in two places": (
        {"storageInitializer": '{"cache": {"hostPath": "/x", "claimName": "y", "maxSize": "1Gi"}}'},
        "inferenceservice-config: storageInitializer.cache: give either hostPath or claimName",
    ),
    "an item of another type": (
        {"ingress": '{"additionalDomainTemplates": ["a", 1]}'},
        "inferenceservice-config: ingress.additionalDomainTemplates.1: Input should be a valid string",
    ),
}


@pytest.mark.parametrize(("data", "message"), UNUSABLE.values(), ids=UNUSABLE.keys())
def test_a_configuration_is_refused_with_its_key_and_field_when_it_holds(data: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(data)

    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("path", SHIPPED, ids=[str(path.relative_to(ROOT)) for path in SHIPPED])
def test_the_configurations_that_are_shipped_can_be_used(path: Path) -> None:
    data = yaml.safe_load(path.read_text())["data"]

    assert parse_config(data).ingress.ingress_domain == "example.com"


def test_what_is_shipped_for_any_cluster_are_the_defaults() -> None:
    data = yaml.safe_load((ROOT / "manifests" / "base" / "config.yaml").read_text())["data"]

    assert parse_config(data) == OperatorConfig()
