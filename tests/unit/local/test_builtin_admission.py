"""What the API server would refuse of the children of services; it is compared with a real one elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from isvc.run.check import Severity, check
from isvc.run.documents import YamlText
from tests.support.local_services import parsed, runtime
from tests.support.sample_services import model, server_container, service


def errors(*documents: dict[str, Any]) -> list[str]:
    text = YamlText("my.yaml", yaml.safe_dump_all(documents))
    return check([text], "default", installed=parsed(runtime()).runtimes, settings=None).texts(Severity.ERROR)


def own(**fields: Any) -> dict[str, Any]:
    return service("a", predictor={"containers": [server_container(**fields)]})


_SERVER = "spec.template.spec.containers[0]"
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a probe without a handler": (
        own(readinessProbe={"periodSeconds": 5}),
        f"{_SERVER}.readinessProbe: Required value: must specify a handler type",
    ),
    "a probe with two handlers": (
        own(livenessProbe={"tcpSocket": {"port": 1}, "exec": {"command": ["a"]}}),
        f"{_SERVER}.livenessProbe: Forbidden: may not specify more than 1 handler type: exec, tcpSocket",
    ),
    "a probe that has to succeed twice": (
        own(livenessProbe={"tcpSocket": {"port": 1}, "successThreshold": 2}),
        f"{_SERVER}.livenessProbe.successThreshold: Invalid value: must be 1",
    ),
    "privileges without an escalation": (
        own(securityContext={"privileged": True, "allowPrivilegeEscalation": False}),
        f"{_SERVER}.securityContext: Invalid value: cannot set `allowPrivilegeEscalation` to false and `privileged` to "
        "true",
    ),
    "a capability that needs an escalation": (
        own(securityContext={"allowPrivilegeEscalation": False, "capabilities": {"add": ["CAP_SYS_ADMIN"]}}),
        f"{_SERVER}.securityContext: Invalid value: cannot set `allowPrivilegeEscalation` to false and "
        "`capabilities.Add` CAP_SYS_ADMIN",
    ),
    "a misspelt field": (
        own(readinessProbe={"httpGet": {"port": 8080, "pth": "/ready"}}),
        f"{_SERVER}.readinessProbe.httpGet.pth: unknown field (did you mean path?)",
    ),
    "a field as in Python": (
        own(readinessProbe={"http_get": {"port": 8080}}),
        f"{_SERVER}.readinessProbe.http_get: unknown field (did you mean httpGet?)",
    ),
    "a text for a truth": (
        own(tty="true"),
        f"{_SERVER}.tty: must be of type boolean, not string",
    ),
    "a mount without a volume": (
        own(volumeMounts=[{"name": "a", "mountPath": "/a"}]),
        f'{_SERVER}.volumeMounts[0].name: Not found: "a"',
    ),
    "a container without an image": (
        service("a", predictor=model(modelFormat={"name": "fake"}) | {"containers": [{"name": "beside"}]}),
        "spec.template.spec.containers[1].image: Required value",
    ),
    "a variable from nowhere": (
        own(env=[{"name": "A", "valueFrom": {}}]),
        f"{_SERVER}.env[1].valueFrom: Required value: must specify a source",
    ),
    "a label of the pods": (
        service("a", predictor={"labels": {"a": "b c"}, "containers": [server_container()]}),
        'spec.template.metadata.labels.a: Invalid value: "b c"',
    ),
}


@pytest.mark.parametrize(("document", "line"), REFUSED.values(), ids=REFUSED)
def test_what_the_api_server_would_refuse_of_a_deployment_is_an_error(document: dict[str, Any], line: str) -> None:
    found = [
        text for text in errors(document) if text.startswith(f"InferenceService a: Deployment a-predictor: {line}")
    ]

    assert len(found) == 1


S3 = service("a", predictor=model(modelFormat={"name": "fake"}, storageUri="s3://bucket/bert"))
ACCOUNT = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}, "secrets": [{"name": "s3"}]}


def secret(name: str = "s3", annotations: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "annotations": annotations or {}}
    keys = {"AWS_ACCESS_KEY_ID": "an-id", "AWS_SECRET_ACCESS_KEY": "a-secret"} if name == "s3" else {}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": keys | data}


def test_what_the_storage_initializer_would_refuse_is_an_error() -> None:
    patterns = S3 | {"metadata": {"name": "a", "annotations": {"storage.isvc-operator.io/allow-patterns": '["a", 1]'}}}
    gs = service("a", predictor=model(modelFormat={"name": "fake"}, storageUri="gs://bucket/bert"))

    def container(name: str, value: str) -> dict[str, Any]:
        return {
            "apiVersion": "serving.kserve.io/v1alpha1",
            "kind": "ClusterStorageContainer",
            "metadata": {"name": "other"},
            "spec": {
                "container": {"name": "storage-initializer", "env": [{"name": name, "value": value}]},
                "supportedUriFormats": [{"prefix": "s3://"}, {"prefix": "gs://"}],
            },
        }

    assert errors(S3, ACCOUNT, secret()) == []
    assert errors(S3, ACCOUNT, secret(annotations={"serving.kserve.io/s3-endpoint": "ftp://minio"})) == [
        "InferenceService a: the storage-initializer: the S3 endpoint is 'ftp://minio', which is not a URL; "
        "write https://HOST[:PORT]"
    ]
    assert errors(S3, ACCOUNT, secret(AWS_SECRET_ACCESS_KEY="a-\nsecret")) == [
        "InferenceService a: the storage-initializer: AWS_SECRET_ACCESS_KEY has a line end or another character that "
        "cannot be sent; store it again as it was issued"
    ]
    assert errors(S3, container("S3_READ_TIMEOUT", "never")) == [
        "InferenceService a: the storage-initializer: S3_READ_TIMEOUT is 'never'; set it to a number of at least 1"
    ]
    assert errors(gs, container("STORAGE_EMULATOR_HOST", "fake:nine")) == [
        "InferenceService a: the storage-initializer: STORAGE_EMULATOR_HOST is 'http://fake:nine', which is not a URL; "
        "write http://HOST[:PORT]"
    ]
    assert errors(patterns) == [
        'InferenceService a: the storage-initializer: STORAGE_ALLOW_PATTERNS is ["a", 1]; write a JSON array of '
        "strings, or a list with commas"
    ]


@pytest.mark.parametrize(
    ("uri", "data", "said"),
    [
        ("hf://owner/model", {"HF_TOKEN": "hf x"},
         "HF_TOKEN has characters that no token has; store the token again as it was issued"),
        ("https://me.blob.core.windows.net/models/bert", {"AZURE_STORAGE_ACCESS_KEY": "a key"},
         "AZURE_STORAGE_ACCESS_KEY is not an account's key, which is base64; store it again as it was issued"),
        ("https://example.com/m.mar", {"https-host": "example.com", "headers": '{"Authorization": "Bearer\\na"}'},
         "example.com-headers has a line end or another character that cannot be sent; store it again "
         "as it was issued"),
    ],
)  # fmt: skip
def test_keys_that_cannot_be_used_are_an_error(uri: str, data: dict[str, str], said: str) -> None:
    downloaded = service("a", predictor=model(modelFormat={"name": "fake"}, storageUri=uri))
    account = ACCOUNT | {"secrets": [{"name": "keys"}]}

    assert errors(downloaded, account, secret("keys", **data)) == [
        f"InferenceService a: the storage-initializer: {said}"
    ]


def test_a_container_without_a_name_before_a_server_is_an_error() -> None:
    unnamed = service("a", predictor={"containers": [server_container()], "initContainers": [{"image": "prepare:1"}]})

    assert errors(unnamed) == [
        "InferenceService a: Deployment a-predictor: spec.template.spec.initContainers[0].name: Required value"
    ]


def test_a_downloader_of_ones_own_is_not_asked() -> None:
    container = {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "ClusterStorageContainer",
        "metadata": {"name": "mine"},
        "spec": {
            "container": {"image": "mine:1", "env": [{"name": "S3_READ_TIMEOUT", "value": "never"}]},
            "supportedUriFormats": [{"prefix": "s3://"}],
        },
    }

    assert errors(S3, container) == []


def test_a_container_of_a_runtime_is_checked_but_for_what_a_service_may_add() -> None:
    probe = {"httpGet": {"port": 8080, "pth": "/ready"}, "periodSeconds": -1}
    mine = runtime("mine", readinessProbe=probe, livenessProbe={"httpGet": {"path": "/"}}, image=None, imagePulPolicy=3)

    assert errors(mine) == [
        "ClusterServingRuntime mine: spec.containers[0].readinessProbe.httpGet.pth: unknown field (did you mean path?)",
        "ClusterServingRuntime mine: spec.containers[0].readinessProbe.periodSeconds: Invalid value: -1: should be "
        "greater than or equal to 0",
    ]


def test_a_container_for_storage_is_checked() -> None:
    container = {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "ClusterStorageContainer",
        "metadata": {"name": "mine"},
        "spec": {
            "container": {"name": "storage-initializer", "securityContext": {"runAsUsr": 5}},
            "supportedUriFormats": [{"prefix": "s3://"}],
        },
    }

    assert errors(container) == [
        "ClusterStorageContainer mine: spec.container.securityContext.runAsUsr: unknown field (did you mean runAsUser?)"
    ]
