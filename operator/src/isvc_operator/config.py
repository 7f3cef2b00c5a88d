"""The operator's configuration: the keys of KServe's ``inferenceservice-config``, with additional fields.

Each key of the ConfigMap has a JSON value. KServe's ConfigMap can be kept: what this operator does not use is left out
here, and named by ``ignored``. Parsing is pure; ``handlers`` reads the files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from ipaddress import ip_network
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from isvc_operator import __version__
from isvc_operator.api.base import fields_given
from isvc_operator.api.core_shapes import quantity
from isvc_operator.api.names import CONFIG_MAP
from isvc_operator.errors import ConfigError
from isvc_operator.limits import ROUTE_HOSTS

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DOMAIN = re.compile(rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*")
_GATEWAY = re.compile(rf"{_LABEL}/{_LABEL}(\.{_LABEL})*")
# Names contain no "/". So no path of a service is inside that of another one, and a path is one claim (host_claims).
_PATH_TEMPLATE = re.compile(r"(?!.*/\.{1,2}(/|$))(/([-A-Za-z0-9._~]|\{\{-?\s*\.(Name|Namespace)\s*-?\}\})+)+")


def _text_of_number(value: Any) -> Any:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _is_quantity(value: str) -> str:
    if (number := quantity(value)) is None or number < 0:
        raise PydanticCustomError("quantity", "this is not a quantity; write one such as 500m or 2Gi")
    return value


TextOrNumber = Annotated[str, BeforeValidator(_text_of_number)]
Quantity = Annotated[TextOrNumber, AfterValidator(_is_quantity)]


def _is_cidr(value: str) -> str:
    try:
        ip_network(value)
    except ValueError as error:
        raise PydanticCustomError("cidr", "this is not a CIDR; write one such as 10.0.0.0/24") from error
    return value


Namespace = Annotated[str, Field(pattern=rf"^{_LABEL}$", max_length=63)]
Cidr = Annotated[str, AfterValidator(_is_cidr)]
QuantityOrNone = Annotated[TextOrNumber, AfterValidator(lambda value: value and _is_quantity(value))]  # "" for none


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="ignore")

    _null_means_absent = model_validator(mode="before")(fields_given)


class _WithAmounts(_Section):
    """A section with requests and limits: a default that the other amount contradicts has that amount."""

    @model_validator(mode="after")
    def _no_request_above_its_limit(self) -> Self:
        changed: dict[str, Any] = {}
        for request, limit in (("cpu_request", "cpu_limit"), ("memory_request", "memory_limit")):
            requested, limited = (getattr(self, name) for name in (request, limit))
            least, most = quantity(requested), quantity(limited)
            if least is None or most is None or least <= most:
                continue
            if {request, limit} <= self.model_fields_set:
                message = "{request} {requested} is more than {limit} {limited}; correct one of them"
                names = {"request": to_camel(request), "limit": to_camel(limit)}
                raise PydanticCustomError("pair", message, {**names, "requested": requested, "limited": limited})
            changed |= {limit: requested} if request in self.model_fields_set else {request: limited}
        return self.model_copy(update=changed) if changed else self


class PathIngress(_Section):
    """The Ingress for a service's path on the host of all services: how its controller removes that path.

    ``{{ .Path }}`` stands for it in ``path`` and ``annotations``.
    """

    path: Annotated[str, Field(pattern=r"^(/|\{\{-?\s*\.Path\s*-?\}\})")] = "{{ .Path }}"
    path_type: Literal["Prefix", "ImplementationSpecific"] = "Prefix"
    annotations: dict[str, str]
    tls_secret_name: str | None = None


class IngressConfig(_Section):
    """Key ``ingress``. The last five fields are not KServe's."""

    ingress_domain: str = "example.com"
    additional_ingress_domains: tuple[str, ...] = ()
    domain_template: str = "{{ .Name }}.{{ .Namespace }}.{{ .IngressDomain }}"
    path_template: str = ""
    ingress_class_name: str | None = None
    url_scheme: str = "http"
    disable_ingress_creation: bool = False
    enable_gateway_api: bool = False
    kserve_ingress_gateway: str = "kserve/kserve-ingress-gateway"
    disable_http_route_timeout: bool = Field(default=False, alias="disableHTTPRouteTimeout")
    additional_domain_templates: tuple[str, ...] = ("{{ .Name }}-{{ .Namespace }}.{{ .IngressDomain }}",)
    annotations: dict[str, str] = Field(default_factory=dict)
    allowed_service_annotations: tuple[str, ...] = ()
    tls_secret_name: str | None = None
    path_ingress: PathIngress | None = None

    @field_validator("ingress_domain")
    @classmethod
    def _is_domain(cls, value: str) -> str:
        if not _DOMAIN.fullmatch(value):
            raise PydanticCustomError("domain", "{domain} is not a domain such as example.com", {"domain": value})
        return value

    @field_validator("additional_ingress_domains")
    @classmethod
    def _are_domains(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(cls._is_domain, value))

    @field_validator("path_template")
    @classmethod
    def _is_path(cls, value: str) -> str:
        if value and not _PATH_TEMPLATE.fullmatch(value):
            raise PydanticCustomError(
                "path",
                "this is not a path of letters, digits, '-', '.', '_', '~', {{ .Namespace }} and {{ .Name }}; "
                "write one such as /serving/{{ .Namespace }}/{{ .Name }}",
            )
        return value

    @model_validator(mode="after")
    def _fits_an_http_route(self) -> IngressConfig:
        if not self.enable_gateway_api:
            return self
        if not _GATEWAY.fullmatch(self.kserve_ingress_gateway):
            raise PydanticCustomError("gateway", "kserveIngressGateway is not the NAMESPACE/NAME of a Gateway")
        hosts = (1 + len(self.additional_domain_templates)) * (1 + len(self.additional_ingress_domains))
        hosts += 1  # one that is too long for DNS has a shortened one beside it
        if hosts > ROUTE_HOSTS:
            raise PydanticCustomError(
                "hosts",
                "domainTemplate, additionalDomainTemplates and additionalIngressDomains give a service up to {hosts} "
                "hosts, and an HTTPRoute can have {most}; remove some",
                {"hosts": hosts, "most": ROUTE_HOSTS},
            )
        return self

    @property
    def gateway(self) -> tuple[str, str]:
        """The namespace and the name of the Gateway that HTTPRoutes are attached to."""
        namespace, _, name = self.kserve_ingress_gateway.partition("/")
        return namespace, name


class CacheConfig(_Section):
    """Where downloads are cached for the next pod: a folder of the node, or a claim in each service's namespace."""

    host_path: str | None = None
    claim_name: str | None = None
    max_size: TextOrNumber

    @field_validator("max_size")
    @classmethod
    def _is_size(cls, value: str) -> str:
        if (quantity(value) or 0) <= 0:
            raise PydanticCustomError("size", "this is not a size; write a quantity such as 100Gi")
        return value

    @model_validator(mode="after")
    def _is_one_place(self) -> CacheConfig:
        if bool(self.host_path) == bool(self.claim_name):
            raise PydanticCustomError("place", "give either hostPath or claimName")
        return self

    @property
    def max_bytes(self) -> int:
        return int(quantity(self.max_size) or 0)


class OciMode(StrEnum):
    """How the pod uses a model that is an image."""

    MODELCAR = "modelcar"
    NATIVE = "native"
    FETCH = "fetch"


class StorageInitializerConfig(_WithAmounts):
    """Key ``storageInitializer``: the init container's image, resources and certificates; models that are images.

    ``cache`` is not KServe's.
    """

    image: str = f"localhost/isvc-operator/storage-initializer:{__version__}"
    cpu_request: Quantity = "100m"
    cpu_limit: Quantity = "1"
    memory_request: Quantity = "100Mi"
    memory_limit: Quantity = "1Gi"
    ca_bundle_config_map_name: str = ""
    ca_bundle_volume_mount_path: str = "/etc/ssl/custom-certs"
    enable_direct_pvc_volume_mount: bool = False
    cache: CacheConfig | None = None
    enable_modelcar: bool = True
    enable_oci_model_support: bool = False
    oci_model_mode: OciMode | Literal[""] = ""
    cpu_modelcar: Quantity = "10m"
    memory_modelcar: Quantity = "15Mi"
    uid_modelcar: int = 1010

    @property
    def serves_images(self) -> bool:
        """Whether services may use models that are images; each of KServe's three switches turns it on."""
        return bool(self.enable_modelcar or self.enable_oci_model_support or self.oci_model_mode)

    @property
    def image_mode(self) -> OciMode:
        return self.oci_model_mode or OciMode.MODELCAR


class S3Config(_Section):
    """Defaults for S3 settings that neither annotations nor secret have; an empty value sets nothing."""

    s3_access_key_id_name: str = Field(default="AWS_ACCESS_KEY_ID", alias="s3AccessKeyIDName")
    s3_secret_access_key_name: str = "AWS_SECRET_ACCESS_KEY"  # noqa: S105 - the name of a key
    s3_endpoint: str = ""
    s3_use_https: str = ""
    s3_region: str = ""
    s3_verify_ssl: str = Field(default="", alias="s3VerifySSL")
    s3_use_virtual_bucket: str = ""
    s3_use_accelerate: str = ""
    s3_use_anonymous_credential: str = ""
    s3_ca_bundle: str = Field(default="", alias="s3CABundle")
    s3_ca_bundle_config_map: str = Field(default="", alias="s3CABundleConfigMap")


class GcsConfig(_Section):
    """How a secret for Google Cloud Storage is recognised."""

    gcs_credential_file_name: str = "gcloud-application-credentials.json"


class CredentialsConfig(_Section):
    """Key ``credentials``: how secrets for storage are found and read."""

    storage_spec_secret_name: str = "storage-config"  # noqa: S105 - the name of a secret
    storage_secret_name_annotation: str = "serving.kserve.io/storageSecretName"  # noqa: S105
    s3: S3Config = S3Config()
    gcs: GcsConfig = GcsConfig()


class SecurityConfig(_Section):
    """Key ``security``. Unlike with KServe, model pods get no token by default."""

    auto_mount_service_account_token: bool = False


class ResourceConfig(_WithAmounts):
    """Default resources of the user's own containers; an empty value leaves one out."""

    cpu_request: QuantityOrNone = "1"
    cpu_limit: QuantityOrNone = "1"
    memory_request: QuantityOrNone = "2Gi"
    memory_limit: QuantityOrNone = "2Gi"


class UpgradePolicy(StrEnum):
    """When running pods get the pod template of a newer version of the operator."""

    ON_CHANGE = "OnChange"  # with the next change of their service, its runtime or the configuration
    AUTO = "Auto"


class InferenceServiceConfig(_Section):
    """Key ``inferenceService``. ``podDisruptionBudget``, ``upgradePolicy`` and ``rolloutsPerMinute`` are not KServe's.

    The last one is how many services get new pods in a minute for a change of what they share; 0 for no limit.
    """

    resource: ResourceConfig = ResourceConfig()
    pod_disruption_budget: bool = True
    upgrade_policy: UpgradePolicy = UpgradePolicy.ON_CHANGE
    rollouts_per_minute: int = Field(default=0, ge=0, le=6000)
    service_annotation_disallowed_list: tuple[str, ...] = ()
    service_label_disallowed_list: tuple[str, ...] = ()


class AutoscalerConfig(_Section):
    """Key ``autoscaler``: seconds for which an autoscaler looks back before it changes the number of pods."""

    scale_up_stabilization_window_seconds: int | None = Field(default=None, ge=0, le=3600)
    scale_down_stabilization_window_seconds: int | None = Field(default=None, ge=0, le=3600)


class OpenTelemetryConfig(_Section):
    """Key ``opentelemetryCollector``: where KEDA gets the pods' own metrics from."""

    metric_scaler_endpoint: str = "keda-otel-scaler.keda.svc:4318"


class ServiceConfig(_Section):
    """Key ``service``. ``tlsSecretName`` is not KServe's: the Secret that pods serve TLS with, by default none."""

    service_cluster_ip_none: bool = Field(default=False, alias="serviceClusterIPNone")
    tls_secret_name: str = ""


class NetworkAccess(StrEnum):
    """Who may connect to the pods of a service."""

    NONE = "none"  # everyone: no NetworkPolicy is made
    NAMESPACE = "namespace"  # pods of its own namespace, and ingress controllers
    SERVICE = "service"  # as namespace; only the transformer and the explainer to a predictor behind a transformer


class NetworkPolicyConfig(_Section):
    """Key ``networkPolicy``, which is not KServe's: who may connect to pods by default, and from where else.

    ``ingress_namespaces`` and ``ingress_cidrs`` are those of ingress controllers, ``metrics_namespaces`` those of
    Prometheus.
    """

    default: NetworkAccess = NetworkAccess.NONE
    ingress_namespaces: tuple[Namespace, ...] = ()
    ingress_cidrs: tuple[Cidr, ...] = ()
    metrics_namespaces: tuple[Namespace, ...] = ()

    @property
    def names_ingress(self) -> bool:
        """Whether ingress controllers can reach the services."""
        return bool(self.ingress_namespaces or self.ingress_cidrs)


class PodSecurityConfig(_Section):
    """Key ``podSecurity``, which is not KServe's: where services get only pods that Pod Security would admit.

    ``restricted`` are names and patterns of the namespaces where that is its standard of the same name.
    """

    restricted: tuple[str, ...] = ()


class LoggerConfig(_Section):
    """Key ``logger``: where payloads are sent by default, and how certificates are checked there.

    ``ca_bundle`` is a ConfigMap in the service's namespace, ``ca_cert_file`` one of its keys.
    """

    default_url: str = "http://default-broker"
    ca_bundle: str = ""
    ca_cert_file: str = "service-ca.crt"
    tls_skip_verify: bool = False


class OperatorConfig(_Section):
    """Everything that an administrator can set."""

    ingress: IngressConfig = IngressConfig()
    storage_initializer: StorageInitializerConfig = StorageInitializerConfig()
    credentials: CredentialsConfig = CredentialsConfig()
    security: SecurityConfig = SecurityConfig()
    inference_service: InferenceServiceConfig = InferenceServiceConfig()
    service: ServiceConfig = ServiceConfig()
    autoscaler: AutoscalerConfig = AutoscalerConfig()
    opentelemetry_collector: OpenTelemetryConfig = Field(default=OpenTelemetryConfig(), alias="opentelemetryCollector")
    logger: LoggerConfig = LoggerConfig()
    network_policy: NetworkPolicyConfig = NetworkPolicyConfig()
    pod_security: PodSecurityConfig = PodSecurityConfig()

    def with_headless_services(self, headless: bool) -> OperatorConfig:
        """Return the configuration with another ``serviceClusterIPNone``."""
        section = self.service.model_copy(update={"service_cluster_ip_none": headless})
        return self.model_copy(update={"service": section})


def parse_config(data: Mapping[str, str]) -> OperatorConfig:
    """Parse the ConfigMap's ``data``; raises ConfigError with the key and the field."""
    sections: dict[str, BaseModel] = {}
    for name, field in OperatorConfig.model_fields.items():
        key, section = field.alias or name, field.annotation
        if key not in data or section is None:
            continue
        try:
            sections[name] = section.model_validate_json(data[key])
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join([key, *(str(part) for part in first["loc"])])
            raise ConfigError(f"{CONFIG_MAP}: {where}: {first['msg']}") from error
    return OperatorConfig.model_validate(sections)
