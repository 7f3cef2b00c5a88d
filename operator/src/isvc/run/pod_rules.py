"""The rules of Kubernetes for the parts of a pod, as JSON schemas that go over those of the types.

Each is what the API server does, not what its documentation says: it takes `""` for a word that has a default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from isvc.run.admission import LABEL_KEY, LABEL_VALUE, SUBDOMAIN

_LABEL: Final = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
# The name of an object, and of a file in it; a path below a folder.
_NAME: Final = {"type": "string", "pattern": f"^{SUBDOMAIN}$", "maxLength": 253}
_KEY: Final = {"pattern": r"^(?!\.\.)(?!\.$)[-._a-zA-Z0-9]{1,253}$"}
_INSIDE: Final = {"pattern": r"^(?!/)(?!(.*/)?\.\.(/|$))"}
_TEXT: Final = {"minLength": 1}
_PORT_NAME: Final = r"(?=.{1,15}$)(?!.*--)(?=.*[a-z])[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NUMBER: Final = {"type": "integer", "minimum": 1, "maximum": 65535}
_PORT: Final = {"anyOf": [_NUMBER, {"type": "string", "pattern": f"^{_PORT_NAME}$"}]}
_TARGET: Final = {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 65535}, _PORT["anyOf"][1]]}
_COUNT: Final = {"minimum": 0, "maximum": 2**31 - 1}
_ID: Final = {"type": "integer", **_COUNT}
_MODE: Final = {"minimum": 0, "maximum": 0o777}
_SHARE: Final = {"anyOf": [{"type": "integer", **_COUNT}, {"type": "string", "pattern": "^[0-9]+%$"}]}
_PROTOCOL: Final = {"enum": ["TCP", "UDP", "SCTP", ""]}
_LABEL_KEY: Final = {"pattern": f"^{LABEL_KEY}$"}
_LABEL_VALUE: Final = {"type": "string", "pattern": f"^{LABEL_VALUE}$"}
_LABELS: Final = {"propertyNames": _LABEL_KEY, "additionalProperties": _LABEL_VALUE}
_AMOUNTS: Final = {
    "propertyNames": {
        "pattern": f"^(cpu|memory|ephemeral-storage|hugepages-.+|(?!([^/]*[.])?kubernetes[.]io/)(?=[^/]+/){LABEL_KEY})$"
    }
}
_FIELD_PATH: Final = (
    r"^(metadata\.(name|namespace|uid|(labels|annotations)\['.+'\])|spec\.(nodeName|serviceAccountName)|"
    r"status\.(hostIPs?|podIPs?))$"
)


def _selecting(*operators: str) -> Mapping[str, Any]:
    """Return the rules of an expression that selects by values: with these operators it has some, with others none."""
    some, none = (
        {"properties": {"values": {"minItems": 1}}, "required": ["values"]},
        {"properties": {"values": {"maxItems": 0}}},
    )
    selecting = {"properties": {"operator": {"enum": ["In", "NotIn", *operators]}}}
    return {"if": selecting, "then": some, "else": none}


_DIVISORS: Final = {"enum": ["0", "1", *("1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")]}
_DIVISIBLE: Final = {
    "if": {"properties": {"resource": {"pattern": "[.]cpu$"}}},
    "then": {"properties": {"divisor": {"enum": ["0", "1", "1m"]}}},
    "else": {"properties": {"divisor": _DIVISORS}},
}
# By type and field; "" is for the type itself.
RULES: Final[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {
    "V1ConfigMapEnvSource": {"": {"required": ["name"]}, "name": _NAME},
    "V1ConfigMapKeySelector": {"": {"required": ["name", "key"]}, "name": _NAME, "key": _KEY},
    "V1ConfigMapVolumeSource": {"": {"required": ["name"]}, "name": _TEXT, "defaultMode": _MODE},
    "V1Container": {
        "image": {"pattern": r"^\S([\s\S]*\S)?$"},
        "imagePullPolicy": {"enum": ["Always", "IfNotPresent", "Never", ""]},
        "name": {"pattern": f"^{_LABEL}$"},
        "terminationMessagePolicy": {"enum": ["File", "FallbackToLogsOnError", ""]},
    },
    "V1ContainerPort": {
        "containerPort": _NUMBER,
        "hostPort": _NUMBER,
        "name": {"pattern": f"^({_PORT_NAME})?$"},
        "protocol": _PROTOCOL,
    },
    "V1EnvFromSource": {"prefix": {"pattern": "^[ -<>-~]*$"}},
    "V1EnvVar": {"name": {"pattern": "^[ -<>-~]+$"}},
    "V1ExecAction": {"": {"required": ["command"]}, "command": {"minItems": 1}},
    "V1GRPCAction": {"port": _NUMBER},
    "V1HTTPGetAction": {"port": _PORT, "scheme": {"enum": ["HTTP", "HTTPS", ""]}},
    "V1HTTPHeader": {"": {"required": ["name"]}, "name": {"pattern": "^[-A-Za-z0-9]+$"}},
    "V1HostAlias": {
        "ip": {"anyOf": [{"type": "string", "format": "ipv4"}, {"type": "string", "format": "ipv6"}]},
        "hostnames": {"items": _NAME},
    },
    "V1KeyToPath": {"key": _TEXT, "path": {**_INSIDE, **_TEXT}, "mode": _MODE},
    "V1LabelSelector": {"matchLabels": _LABELS},
    "V1LabelSelectorRequirement": {
        "": _selecting(),
        "key": _LABEL_KEY,
        "operator": {"enum": ["In", "NotIn", "Exists", "DoesNotExist"]},
    },
    "V1NodeSelector": {"nodeSelectorTerms": {"minItems": 1}},
    "V1NodeSelectorRequirement": {
        "": _selecting("Gt", "Lt"),
        "key": _LABEL_KEY,
        "operator": {"enum": ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]},
        "values": {"items": _LABEL_VALUE},
    },
    "V1ObjectFieldSelector": {"fieldPath": {"pattern": _FIELD_PATH}},
    "V1ObjectMeta": {
        "annotations": {"propertyNames": {"pattern": f"^(?i:{LABEL_KEY})$"}},
        "labels": _LABELS,
        "name": _NAME,
    },
    "V1PersistentVolumeClaimVolumeSource": {"claimName": _TEXT},
    "V1PodSecurityContext": {"fsGroup": _ID, "runAsGroup": _ID, "runAsUser": _ID, "supplementalGroups": {"items": _ID}},
    "V1PodSpec": {
        "containers": {"minItems": 1},
        "dnsPolicy": {"enum": ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None", ""]},
        "nodeSelector": _LABELS,
        "priorityClassName": {"pattern": f"^({SUBDOMAIN})?$"},
        "restartPolicy": {"enum": ["Always", ""]},
        "serviceAccountName": {"pattern": f"^({SUBDOMAIN})?$"},
        "terminationGracePeriodSeconds": {"maximum": 2**63 - 1},
    },
    "V1Probe": dict.fromkeys(
        ("failureThreshold", "initialDelaySeconds", "periodSeconds", "successThreshold", "timeoutSeconds"), _COUNT
    ),
    "V1ResourceFieldSelector": {
        "": _DIVISIBLE,
        "resource": {"pattern": "^(limits|requests)[.](cpu|memory|ephemeral-storage|hugepages-.+)$"},
    },
    "V1ResourceRequirements": {"limits": _AMOUNTS, "requests": _AMOUNTS},
    "V1RollingUpdateDeployment": {"maxSurge": _SHARE, "maxUnavailable": _SHARE},
    "V1SecretEnvSource": {"": {"required": ["name"]}, "name": _NAME},
    "V1SecretKeySelector": {"": {"required": ["name", "key"]}, "name": _NAME, "key": _KEY},
    "V1SecretVolumeSource": {"": {"required": ["secretName"]}, "secretName": _TEXT, "defaultMode": _MODE},
    "V1SecurityContext": {"runAsGroup": _ID, "runAsUser": _ID},
    "V1ServicePort": {
        "name": {"pattern": f"^{_LABEL}$"},
        "protocol": _PROTOCOL,
        "port": _NUMBER,
        "targetPort": _TARGET,
    },
    "V1SleepAction": {"": {"required": []}, "seconds": {"minimum": 0}},
    "V1TCPSocketAction": {"port": _PORT},
    "V1Toleration": {
        "effect": {"enum": ["NoSchedule", "PreferNoSchedule", "NoExecute", ""]},
        "key": {"pattern": f"^({LABEL_KEY})?$"},
        "operator": {"enum": ["Exists", "Equal", ""]},
    },
    "V1TopologySpreadConstraint": {
        "maxSkew": {**_COUNT, "minimum": 1},
        "topologyKey": _TEXT,
        "whenUnsatisfiable": {"enum": ["DoNotSchedule", "ScheduleAnyway"]},
    },
    "V1Volume": {"name": {"pattern": f"^{_LABEL}$"}},
    "V1VolumeMount": {"mountPath": _TEXT, "name": _TEXT, "subPath": _INSIDE},
}
