"""ClusterStorageContainer (serving.kserve.io/v1alpha1): a container that downloads from certain URIs."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from isvc_operator.api.base import ApiModel, ObjectMeta
from isvc_operator.api.core_fields import Container
from isvc_operator.api.names import GROUP

VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "ClusterStorageContainer"
PLURAL: Final = "clusterstoragecontainers"
INIT_CONTAINER: Final = "initContainer"


class SupportedUriFormat(ApiModel):
    """URIs that the container can download; give one of the two."""

    prefix: str | None = Field(default=None, description="Prefix of such a URI: s3://, gs://, …")
    regex: str | None = Field(default=None, description="Regular expression that matches a part of such a URI.")


class StorageContainerSpec(ApiModel):
    """The container and the URIs that it supports."""

    container: Container = Field(
        description="Fields that are merged over those of the storage-initializer's container."
    )
    supported_uri_formats: list[SupportedUriFormat] = Field(description="URIs that the container can download.")
    workload_type: str | None = Field(
        default=None,
        description="initContainer, the default, downloads into pods; other containers are not used by services.",
    )
    supports_multi_model_download: bool | None = Field(
        default=None, description="Whether the container accepts several pairs of source and destination."
    )


class ClusterStorageContainer(ApiModel):
    """Downloads models from some URIs, in place of the storage-initializer or with other settings."""

    api_version: str = API_VERSION
    kind: str = KIND
    metadata: ObjectMeta = ObjectMeta()
    spec: StorageContainerSpec
    disabled: bool | None = Field(default=None, description="A disabled container is never used.")
