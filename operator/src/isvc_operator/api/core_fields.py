"""The top-level fields of core/v1 PodSpec and Container.

Their contents are Kubernetes' own and passed on unchanged. The names are listed here to detect misspelled ones. A test
compares them with the installed `kubernetes` client.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, WithJsonSchema

from isvc_operator.api import core_shapes as shapes
from isvc_operator.api.base import ApiModel, Texts
from isvc_operator.api.core_shapes import QUANTITY_SCHEMA, Shaped
from isvc_operator.api.rule import Rule, has_variable
from isvc_operator.limits import VARIABLES

# A core/v1 value, which the API server validates.
Core = dict[str, Any]


def _open(**properties: Any) -> dict[str, Any]:
    """Return the schema of an object with these fields and any others."""
    return {"type": "object", "properties": properties, "additionalProperties": True}


# These quantities are checked when a service is written, as by KServe's CRD; others when it is reconciled.
_AMOUNTS: Final = {"type": "object", "additionalProperties": QUANTITY_SCHEMA}
_RESOURCES: Final = _open(limits=_AMOUNTS, requests=_AMOUNTS)
_VOLUME: Final = _open(emptyDir=_open(sizeLimit=QUANTITY_SCHEMA))
# Rules use the names and values of variables. The limit is far above what a container has; the API server needs it to
# estimate the cost of the rules.
_VARIABLE: Final = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 253},
        "value": {"type": "string"},
    },
    "additionalProperties": True,
}
_NAME: Final = {"type": "string", "maxLength": 63, "description": "Name of the container."}
_ENV: Final = {
    "type": "array",
    "maxItems": VARIABLES,
    "items": _VARIABLE,
    "description": "kubectl explain pod.spec.containers.env",
}
NO_PYTHON_PATH: Final = Rule(
    f"!{has_variable('self', 'PYTHONPATH')}",
    "PYTHONPATH is not allowed, because it could replace modules of the server; remove it, and install packages into "
    "the image",
    field=".env",
)

# A container is passed on as well, but rules and `kubectl explain` use its name and its variables.
_EXPLAINED: Final = _RESOURCES | {"description": "kubectl explain pod.spec.containers.resources"}
_CONTAINER: Final = _open(name=_NAME, resources=_EXPLAINED)
_SERVER: Final = _open(name=_NAME, env=_ENV, resources=_EXPLAINED) | {
    "x-kubernetes-validations": [NO_PYTHON_PATH.as_dict()],
}
Container = Annotated[Core, Shaped(shapes.CONTAINER), WithJsonSchema(_CONTAINER)]
Containers = Annotated[list[Annotated[Core, Shaped(shapes.CONTAINER), WithJsonSchema(_SERVER)]], Field(max_length=100)]


# Core/v1 values with parts that the operator reads.
Named = Annotated[Core, Shaped(shapes.NAMED)]
# Kubernetes takes one without a name, or null, for none.
PullSecret = Annotated[
    Core,
    Shaped(shapes.NAMED),
    WithJsonSchema({"type": "object", "additionalProperties": True, "nullable": True}),
    BeforeValidator(lambda item: {} if item is None else item),
]
Variable = Annotated[Core, Shaped(shapes.VARIABLE), WithJsonSchema(_VARIABLE)]
Port = Annotated[Core, Shaped(shapes.PORT)]
Mount = Annotated[Core, Shaped(shapes.MOUNT)]
Amounts = Annotated[Core, Shaped(shapes.AMOUNTS), WithJsonSchema(_AMOUNTS)]
Resources = Annotated[Core, Shaped(shapes.RESOURCES), WithJsonSchema(_RESOURCES)]
Volume = Annotated[Core, Shaped(shapes.VOLUME), WithJsonSchema(_VOLUME)]
Lifecycle = Annotated[Core, Shaped(shapes.LIFECYCLE)]


class PodSpecFields(ApiModel):
    """The fields of a core/v1 PodSpec."""

    active_deadline_seconds: int | None = None
    affinity: Core | None = None
    automount_service_account_token: bool | None = None
    containers: Containers | None = None
    dns_config: Core | None = None
    dns_policy: str | None = None
    enable_service_links: bool | None = None
    ephemeral_containers: list[Core] | None = None
    eviction_responders: list[Core] | None = None
    host_aliases: list[Core] | None = None
    host_ipc: bool | None = Field(default=None, alias="hostIPC")
    host_network: bool | None = None
    host_pid: bool | None = Field(default=None, alias="hostPID")
    host_users: bool | None = None
    hostname: str | None = None
    hostname_override: str | None = None
    image_pull_secrets: list[PullSecret] | None = None
    init_containers: Containers | None = None
    node_name: str | None = None
    node_selector: dict[str, str] | None = None
    os: Core | None = None
    overhead: Amounts | None = None
    preemption_policy: str | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    readiness_gates: list[Core] | None = None
    resource_claims: list[Named] | None = None
    resources: Resources | None = None
    restart_policy: str | None = None
    runtime_class_name: str | None = None
    scheduler_name: str | None = None
    scheduling_gates: list[Core] | None = None
    scheduling_group: Core | None = None
    security_context: Core | None = None
    service_account: str | None = None
    service_account_name: str | None = None
    set_hostname_as_fqdn: bool | None = Field(default=None, alias="setHostnameAsFQDN")
    share_process_namespace: bool | None = None
    subdomain: str | None = None
    termination_grace_period_seconds: int | None = None
    tolerations: list[Core] | None = None
    topology_spread_constraints: list[Core] | None = None
    volumes: list[Volume] | None = None


class ContainerFields(ApiModel):
    """The fields of a core/v1 Container."""

    args: Texts | None = None
    command: Texts | None = None
    env: Annotated[list[Variable], Field(max_length=VARIABLES)] | None = None
    env_from: list[Core] | None = None
    image: str | None = None
    image_pull_policy: str | None = None
    lifecycle: Lifecycle | None = None
    liveness_probe: Core | None = None
    name: str | None = None
    ports: list[Port] | None = None
    readiness_probe: Core | None = None
    resize_policy: list[Core] | None = None
    resources: Resources | None = None
    restart_policy: str | None = None
    restart_policy_rules: list[Core] | None = None
    security_context: Core | None = None
    startup_probe: Core | None = None
    stdin: bool | None = None
    stdin_once: bool | None = None
    termination_message_path: str | None = None
    termination_message_policy: str | None = None
    tty: bool | None = None
    volume_devices: list[Core] | None = None
    volume_mounts: list[Mount] | None = None
    working_dir: str | None = None
