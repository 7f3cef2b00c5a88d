"""Services and secrets with one or two things done to them that a person may do by mistake; the same for each seed."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Sequence
from typing import Any

from tests.support.outcomes import Path, paths_in
from tests.support.sample_services import model, server_container, service

Document = dict[str, Any]

_WORDS = (
    "", " ", "a", "A_b", "-a", "a-", "a.b", "a b", "a/b", "..", "../a", "/", "/a", "//a", "/a:b", "ü", "a" * 64,
    "a" * 254, "true", "0", "-1", "8080", "65536", "http", "100Mi", "1.5", "150%", "0x10", "$(A)", "{{.Name}}", "a=b",
    "a\nb", "Always", "TCP", "s3://b/m", "s3://", "hf://m", "hf://o/m:r", "https://h/f", "https://", "pvc://", "pvc://A_b/c",
    "pvc://a/../b", "oci://", "oci://r/i:t", "gs://b", "gs:///", "abfs://a/b", "file://h/p", "hdfs://n/p", "s3://b b/m",
    "a\nb\n", "{}", "[]", "null", '{"a": 1}', "http://", "ftp://a", "s3://[/m", "https://h:0/f", "hf://o/m/f",
    '["*.bin"',
)  # fmt: skip
_NUMBERS = (-1, 0, 1, 2, 3, 31, 101, 8080, 65535, 65536, 2**31, 2**63, 0.5, 1.0)
_OTHERS: tuple[Any, ...] = (
    None,
    True,
    False,
    [],
    {},
    [None],
    [""],
    ["a"],
    [1],
    [{}],
    {"a": "b"},
    {"a": 1},
    {"name": "a"},
)

_CHECK = {"httpGet": {"path": "/ready", "port": "http", "httpHeaders": [{"name": "X-A", "value": "b"}]}}
_HOOK = {"postStart": {"exec": {"command": ["true"]}}, "preStop": {"sleep": {"seconds": 3}}}
_CONTAINER: Document = {
    "command": ["serve"],
    "args": ["--port=8080"],
    "workingDir": "/srv",
    "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}, {"name": "metrics", "containerPort": 8082}],
    "env": [
        {"name": "PLAIN", "value": "a"},
        {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "mine", "key": "a.b", "optional": True}}},
        {"name": "FIELD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "AMOUNT", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
    ],
    "envFrom": [{"prefix": "A_", "configMapRef": {"name": "mine"}}],
    "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"cpu": 1, "memory": "2Gi"}},
    "readinessProbe": {**_CHECK, "periodSeconds": 5, "failureThreshold": 3, "timeoutSeconds": 2},
    "livenessProbe": {"tcpSocket": {"port": 8080}, "initialDelaySeconds": 10, "successThreshold": 1},
    "startupProbe": {"exec": {"command": ["true"]}, "failureThreshold": 30},
    "lifecycle": _HOOK,
    "securityContext": {"runAsUser": 1000, "capabilities": {"drop": ["ALL"]}, "allowPrivilegeEscalation": False},
    "volumeMounts": [
        {"name": "scratch", "mountPath": "/scratch", "subPath": "a/b"},
        {"name": "words", "mountPath": "/words", "readOnly": True},
    ],
    "imagePullPolicy": "Always",
    "terminationMessagePolicy": "File",
}
_POD: Document = {
    "serviceAccountName": "loader",
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
            }
        }
    },
    "volumes": [
        {"name": "scratch", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
        {"name": "words", "configMap": {"name": "words", "items": [{"key": "a", "path": "b/c"}], "defaultMode": 420}},
        {"name": "keys", "secret": {"secretName": "mine"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
    ],
    "imagePullSecrets": [{"name": "registry"}],
    "securityContext": {"runAsUser": 1000, "fsGroup": 1000, "supplementalGroups": [1]},
    "terminationGracePeriodSeconds": 60,
    "priorityClassName": "high",
    "dnsPolicy": "ClusterFirst",
    "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a.example.com"]}],
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"a": "b"}},
        }
    ],
}
_COMPONENT: Document = {
    "minReplicas": 1,
    "maxReplicas": 3,
    "scaleMetric": "cpu",
    "scaleTarget": 60,
    "timeout": 30,
    "labels": {"team": "vision"},
    "annotations": {"example.com/note": "blue"},
    "deploymentStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}},
}
_BESIDE = {"name": "beside", "image": "registry.example.com/beside:1", **_CONTAINER, "ports": [{"containerPort": 9000}]}
_INIT = {"name": "prepare", "image": "registry.example.com/prepare:1", "command": ["prepare"]}


def _in_namespace(document: Document, **metadata: Any) -> Document:
    return document | {"metadata": document["metadata"] | metadata}


# Services, with as much as people write.
SERVICES: tuple[Document, ...] = (
    _in_namespace(
        service("a-model", predictor=_COMPONENT | _POD | model(**_CONTAINER) | {"containers": [_BESIDE]}),
        labels={"app.kubernetes.io/name": "a"},
        annotations={"storage.isvc-operator.io/allow-patterns": "*.mar", "storage.isvc-operator.io/sha256": '{}'},
    ),
    service("own-server", predictor=_COMPONENT | _POD | {"containers": [server_container(**_CONTAINER), _BESIDE],
                                                         "initContainers": [_INIT]}),
    service(
        "with-transformer",
        predictor=model(storageUri="s3://bucket/model", protocolVersion="v1"),
        transformer=_COMPONENT | _POD | {"containers": [server_container(**_CONTAINER)]},
    ),
    service(
        "sources",
        predictor={
            "model": {"modelFormat": {"name": "pytorch"}},
            "storageUris": [
                {"uri": "hf://owner/model", "mountPath": "/mnt/models/a"},
                {"uri": "pvc://claim/path", "mountPath": "/mnt/models/b"},
            ],
        },
    ),
    *(
        service("a-source", predictor=model(storageUri=uri))
        for uri in ("gs://bucket/model", "https://example.com/model.mar", "oci://registry.example.com/model:1",
                    "abfs://models@me.dfs.core.windows.net/bert", "https://me.blob.core.windows.net/models/bert")
    ),
)  # fmt: skip


def _secret(annotations: dict[str, str] | None = None, **data: str) -> Document:
    metadata = {"name": "keys", "annotations": annotations or {}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}


_PREFIX = "serving.kserve.io/s3-"
# Secrets, by the source that they are for.
SECRETS: dict[str, Document] = {
    "s3://bucket/model": _secret(
        {f"{_PREFIX}endpoint": "minio:9000", f"{_PREFIX}usehttps": "0", f"{_PREFIX}region": "eu-west-1"},
        AWS_ACCESS_KEY_ID="an-id",
        AWS_SECRET_ACCESS_KEY="a-secret",
        S3_VERIFY_SSL="0",
    ),
    "hf://owner/model": _secret(HF_TOKEN="hf_x"),
    "https://me.blob.core.windows.net/models/bert": _secret(AZURE_STORAGE_ACCESS_KEY="czNjcmV0"),
    "https://example.com/model.mar": _secret(**{"https-host": "example.com", "headers": '{"Authorization": "a"}'}),
}


def mutated(good: Sequence[Document], count: int, *, parts: Sequence[str], seed: int = 0) -> Iterator[Document]:
    """Yield so many of them; one in four has two changes, the others one, within these parts."""
    chance = random.Random(seed)
    for _ in range(count):
        document = copy.deepcopy(chance.choice(good))
        for _ in range(1 + (chance.random() < 0.25)):
            _change(document, chance, parts)
        yield document


def _change(document: Document, chance: random.Random, parts: Sequence[str]) -> None:
    path = chance.choice([path for path in paths_in(document) if path[0] in parts and len(path) > 1])
    holder: Any = _at(document, path[:-1])
    step, value = path[-1], holder[path[-1]]
    match chance.randrange(6):
        case 0:
            del holder[step]
        case 1 if isinstance(step, str):
            holder[chance.choice(_WORDS)] = holder.pop(step)
        case 1 | 2 if isinstance(holder, list):
            holder.append(copy.deepcopy(value))
        case 2 | 3 if isinstance(value, str):
            holder[step] = chance.choice(_WORDS)
        case 2 | 3 if isinstance(value, (int, float)) and not isinstance(value, bool):
            holder[step] = chance.choice(_NUMBERS)
        case 4:
            other = chance.choice(list(paths_in(document)))
            holder[step] = copy.deepcopy(_at(document, other))
        case _:
            holder[step] = copy.deepcopy(chance.choice((*_WORDS, *_NUMBERS, *_OTHERS)))


def _at(document: Any, path: Path) -> Any:
    for step in path:
        document = document[step]
    return document
