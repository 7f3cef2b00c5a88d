"""The operator's configuration: KServe's ``inferenceservice-config`` keys, and ours beside them.

Each key of the ConfigMap holds a JSON text. Keys of KServe's that nothing here needs are accepted and left alone,
so that an existing ConfigMap can be kept. Parsing is pure; the files are read by ``handlers``.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from isvc_operator.errors import ConfigError


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="ignore")


class IngressConfig(_Section):
    """Key ``ingress``. The last three fields are ours."""

    ingress_domain: str = "example.com"
    domain_template: str = "{{ .Name }}.{{ .Namespace }}.{{ .IngressDomain }}"
    ingress_class_name: str | None = None
    url_scheme: str = "http"
    disable_ingress_creation: bool = False
    additional_domain_templates: tuple[str, ...] = ("{{ .Name }}-{{ .Namespace }}.{{ .IngressDomain }}",)
    annotations: dict[str, str] = Field(default_factory=dict)
    tls_secret_name: str | None = None


class StorageInitializerConfig(_Section):
    """Key ``storageInitializer``: the init container's image and resources (Kubernetes quantities)."""

    image: str = "localhost/isvc-operator/storage-initializer:0.1.0"
    cpu_request: str = "100m"
    cpu_limit: str = "1"
    memory_request: str = "100Mi"
    memory_limit: str = "1Gi"


class SecurityConfig(_Section):
    """Key ``security``. Unlike KServe, model pods get no token unless asked for."""

    auto_mount_service_account_token: bool = False


class InferenceServiceConfig(_Section):
    """Key ``inferenceService``."""

    service_annotation_disallowed_list: tuple[str, ...] = ()


class OperatorConfig(_Section):
    """Everything that an administrator can set; read once and passed down."""

    ingress: IngressConfig = IngressConfig()
    storage_initializer: StorageInitializerConfig = StorageInitializerConfig()
    security: SecurityConfig = SecurityConfig()
    inference_service: InferenceServiceConfig = InferenceServiceConfig()


def parse_config(data: Mapping[str, str]) -> OperatorConfig:
    """Parse the ConfigMap's ``data``; raises ConfigError that names the key and the field."""
    sections: dict[str, BaseModel] = {}
    for name, section in _SECTIONS.items():
        key = to_camel(name)
        if key not in data:
            continue
        try:
            sections[name] = section.model_validate_json(data[key])
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join([key, *(str(part) for part in first["loc"])])
            raise ConfigError(f"inferenceservice-config: {where}: {first['msg']}") from error
    return OperatorConfig.model_validate(sections)


_SECTIONS: dict[str, type[BaseModel]] = {
    "ingress": IngressConfig,
    "storage_initializer": StorageInitializerConfig,
    "security": SecurityConfig,
    "inference_service": InferenceServiceConfig,
}
