"""What each component requests to be downloaded, and which objects have to be read before that can be planned.

Some names are known only after another object has been read: a service account lists its secrets. ``references``
returns the names that are known so far; its caller (``kube``, or ``local`` with the objects of the files) reads those
objects and calls again until there is no new name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from isvc_operator.api.base import ObjectMeta
from isvc_operator.api.components import PredictorSpec, StorageSpec, StorageUri
from isvc_operator.api.core_shapes import without_nulls
from isvc_operator.api.defaulting import model_of
from isvc_operator.api.inference_service import InferenceService
from isvc_operator.api.names import MODELS_MOUNT, PREDICTOR
from isvc_operator.config import CredentialsConfig
from isvc_operator.errors import InvalidCredentials, InvalidSpec
from isvc_operator.limits import SECRETS
from isvc_operator.manifests import annotations_of
from isvc_operator.resolve.components import ComponentSpec, components_of, server_first, stored_uri
from isvc_operator.resolve.storage.objects import ObjectReference, Objects
from isvc_operator.resolve.storage.sources import StorageSource, checked


@dataclass(frozen=True)
class StorageRequest:
    """``sources`` are the URIs in the spec; ``spec`` is storage by the name of a secret instead.

    ``container`` names a ClusterStorageContainer. ``annotations`` are the component's and the service's; the first one
    that has a value wins.
    """

    sources: tuple[StorageSource, ...]
    spec: StorageSpec | None
    container: str | None
    account: ObjectReference
    annotations: tuple[Mapping[str, str], ...]

    @property
    def needs_credentials(self) -> bool:
        """Whether a source may require credentials."""
        return self.spec is not None or any(source.remote for source in self.sources)

    def annotated_secret(self, config: CredentialsConfig, known: Objects) -> str | None:
        """Return the secret that an annotation of the component, the service or the account names, in this order."""
        account = known.get(self.account)
        places = (*self.annotations, annotations_of(account) if account else {})
        names = (place.get(config.storage_secret_name_annotation) for place in places)
        return next(filter(None, names), None)

    def account_secrets(self, config: CredentialsConfig, known: Objects) -> tuple[str, ...]:
        """Return the annotated secret alone, or else those that the account lists. Image pull secrets do not count."""
        if annotated := self.annotated_secret(config, known):
            return (annotated,)
        account = known.get(self.account) or {}
        names = tuple(dict.fromkeys(item["name"] for item in account.get("secrets") or () if item.get("name")))
        if len(names) > SECRETS:
            raise InvalidCredentials(
                f"service account {self.account.name} lists {len(names)} secrets, and no more than {SECRETS} are read; "
                f"name the one for storage in its annotation {config.storage_secret_name_annotation}"
            )
        return names

    def spec_secret(self, config: CredentialsConfig, known: Objects) -> str:
        """Return the name of the secret that has the entry for ``spec``."""
        return self.annotated_secret(config, known) or config.storage_spec_secret_name


StorageRequests = Mapping[str, StorageRequest]
"""The requests of a service by the kind of the component."""


def storage_requests(service: InferenceService) -> StorageRequests:
    """Return the request of each component; raises InvalidSpec for fields that contradict each other.

    A predictor with nothing to serve has none, as ``resolve`` reports.
    """
    found: dict[str, StorageRequest] = {}
    for item in components_of(service):
        model = model_of(item.spec) if isinstance(item.spec, PredictorSpec) else None
        if model:
            found[item.kind] = _request(service.metadata, item.spec, model.storage_uri, model.storage)
        elif item.spec.containers or item.kind != PREDICTOR:
            server, *_ = server_first(without_nulls(item.spec.containers or []), item.field)
            found[item.kind] = _request(service.metadata, item.spec, stored_uri(server))
    return found


def references(requests: StorageRequests, config: CredentialsConfig, known: Objects) -> frozenset[ObjectReference]:
    """Return the objects that have to be read before storage can be planned, as far as ``known`` determines them."""
    found: set[ObjectReference] = set()
    for request in requests.values():
        if request.needs_credentials:
            found.add(request.account)
            found.update(_secrets(request, config, known) if request.account in known else ())
    return frozenset(found)


def _request(
    service: ObjectMeta, component: ComponentSpec, uri: str | None, storage: StorageSpec | None = None
) -> StorageRequest:
    path_in_secret = storage is not None and storage.path is not None
    account = component.service_account_name or component.service_account or "default"
    return StorageRequest(
        sources=_given_sources(uri, component.storage_uris, path_in_secret=path_in_secret),
        spec=storage,
        container=component.storage_container_name if isinstance(component, PredictorSpec) else None,
        account=ObjectReference("ServiceAccount", account),
        annotations=(component.annotations or {}, service.annotations),
    )


def _secrets(request: StorageRequest, config: CredentialsConfig, known: Objects) -> Iterator[ObjectReference]:
    by_name = request.spec is not None
    names = (request.spec_secret(config, known),) if by_name else request.account_secrets(config, known)
    return (ObjectReference("Secret", name) for name in names)


def _given_sources(
    uri: str | None, several: Sequence[StorageUri] | None, *, path_in_secret: bool = False
) -> tuple[StorageSource, ...]:
    """Return the URIs in the spec; none if it names a path in the storage secret, or no storage at all."""
    if several and uri:
        raise InvalidSpec("storageUri and storageUris are both given; move storageUri into storageUris")
    if uri and path_in_secret:
        raise InvalidSpec("storageUri and storage.path are both given; remove one of them")
    if uri:
        return (checked(StorageSource(uri, MODELS_MOUNT)),)
    return tuple(checked(StorageSource(item.uri, str(PurePosixPath(item.mount_path)))) for item in several or ())
