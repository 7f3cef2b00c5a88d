"""Builders of what a service's storage refers to: service accounts, secrets, storage containers."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from isvc_operator.api.parsing import parse_storage_container
from isvc_operator.api.storage_container import ClusterStorageContainer
from isvc_operator.resolve.component import StorageContext
from isvc_operator.resolve.storage.plan import ObjectReference
from tests.support.builders import NAMESPACE, Manifest

S3_KEYS = {"AWS_ACCESS_KEY_ID": "the-id", "AWS_SECRET_ACCESS_KEY": "the-secret"}
GCS_KEY = {"gcloud-application-credentials.json": '{"type": "service_account", "private_key": "the-secret"}'}
HTTP_HEADERS = {"https-host": "models.example.com", "headers": '{"Authorization": "Bearer the-secret"}'}


def an_account(*secrets: str, name: str = "default", annotations: Mapping[str, str] | None = None) -> Manifest:
    """A service account that lists these secrets."""
    body: Manifest = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": dict(annotations or {})},
    }
    return {**body, "secrets": [{"name": secret} for secret in secrets]} if secrets else body


def a_secret(
    name: str = "s3", data: Mapping[str, str] = S3_KEYS, *, annotations: Mapping[str, str] | None = None
) -> Manifest:
    """A secret as the API server holds it; `data` is given as plain text."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": dict(annotations or {})},
        "data": {key: base64.b64encode(text.encode()).decode() for key, text in data.items()},
    }


def s3_annotations(**settings: str) -> dict[str, str]:
    """`endpoint="minio:9000"` as KServe's annotation."""
    return {f"serving.kserve.io/s3-{name.replace('_', '-')}": text for name, text in settings.items()}


def a_config_map(name: str, namespace: str = NAMESPACE, **data: str) -> Manifest:
    """A ConfigMap."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data,
    }


def a_storage_container(
    name: str = "mine",
    *,
    prefix: str = "custom://",
    regex: str | None = None,
    several: bool = False,
    workload: str | None = None,
    disabled: bool = False,
    **container: Any,
) -> ClusterStorageContainer:
    """A container that downloads from what its only format says."""
    format_ = {"prefix": prefix} if regex is None else {"regex": regex}
    spec = {
        "container": {"name": "storage-initializer", "image": "registry.example/mine:1", **container},
        "supportedUriFormats": [format_],
        "supportsMultiModelDownload": several,
        "workloadType": workload,
    }
    body = {"metadata": {"name": name}, "spec": spec, "disabled": disabled}
    return parse_storage_container(body)


def a_context(*objects: Manifest, containers: tuple[ClusterStorageContainer, ...] = ()) -> StorageContext:
    """What was read for a service's storage; `a_resolved` adds the requests of its service."""
    known = {ObjectReference(body["kind"], body["metadata"]["name"]): body for body in objects}
    return StorageContext({}, containers, known)
