"""What a component asks to have brought into its pod, and in whose name; and what has to be read to find that out.

Some names are known only when another object has been read: an account lists its secrets. So ``references`` tells the
names as far as they are known, and whoever reads (``kube``, or the laptop from its files) asks until none is new.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from isvc_operator.api.base import ObjectMeta
from isvc_operator.api.components import ExplainerSpec, ModelSpec, PredictorSpec, StorageSpec, TransformerSpec
from isvc_operator.api.core_shapes import without_nulls
from isvc_operator.api.defaulting import model_of
from isvc_operator.api.inference_service import InferenceService
from isvc_operator.config import CredentialsConfig
from isvc_operator.errors import InvalidCredentials
from isvc_operator.limits import SECRETS
from isvc_operator.resolve.objects import Objects, Reference, annotations_of
from isvc_operator.resolve.own_containers import server_first
from isvc_operator.resolve.sources import Source, given_sources, stored_uri

ComponentSpec = PredictorSpec | TransformerSpec | ExplainerSpec


@dataclass(frozen=True)
class StorageRequest:
    """``sources`` are the URIs that the spec names; ``spec`` is storage by the name of a secret instead.

    ``container`` names a ClusterStorageContainer; ``annotations`` are the component's and the service's, in the order
    in which they count.
    """

    sources: tuple[Source, ...]
    spec: StorageSpec | None
    container: str | None
    account: Reference
    annotations: tuple[Mapping[str, str], ...]

    @property
    def asks_who(self) -> bool:
        """Whether credentials matter."""
        return self.spec is not None or any(source.remote for source in self.sources)

    def annotated_secret(self, config: CredentialsConfig, known: Objects) -> str | None:
        """The secret that an annotation of the component, the service or the account names, in this order."""
        account = known.get(self.account)
        places = (*self.annotations, annotations_of(account) if account else {})
        names = (place.get(config.storage_secret_name_annotation) for place in places)
        return next(filter(None, names), None)

    def account_secrets(self, config: CredentialsConfig, known: Objects) -> tuple[str, ...]:
        """The annotated secret alone, else those that the account lists; its image pull secrets are something else."""
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
        """The secret in which ``spec`` is looked up."""
        return self.annotated_secret(config, known) or config.storage_spec_secret_name


def request_of_model(service: ObjectMeta, predictor: PredictorSpec, model: ModelSpec) -> StorageRequest:
    """What a predictor with a model asks for."""
    path_in_secret = model.storage is not None and model.storage.path is not None
    sources = given_sources(model.storage_uri, predictor.storage_uris, path_in_secret=path_in_secret)
    return _request(service, predictor, sources, model.storage, predictor.storage_container_name)


def request_of_containers(service: ObjectMeta, component: ComponentSpec, field: str) -> StorageRequest:
    """What a component of the user's own containers asks for: by `storageUris`, or by the variable `STORAGE_URI`."""
    server, *_ = server_first(without_nulls(component.containers or []), field)
    container = component.storage_container_name if isinstance(component, PredictorSpec) else None
    return _request(service, component, given_sources(stored_uri(server), component.storage_uris), None, container)


def references(service: InferenceService, config: CredentialsConfig, known: Objects) -> frozenset[Reference]:
    """Everything that has to be read before the service's storage can be resolved, as far as ``known`` tells."""
    found: set[Reference] = set()
    for request in _requests(service):
        if request.asks_who:
            found.add(request.account)
            found.update(_secrets(request, config, known) if request.account in known else ())
    return frozenset(found)


def _requests(service: InferenceService) -> Iterator[StorageRequest]:
    spec, metadata = service.spec, service.metadata
    if model := model_of(spec.predictor):
        yield request_of_model(metadata, spec.predictor, model)
    elif spec.predictor.containers:
        yield request_of_containers(metadata, spec.predictor, "spec.predictor")
    if spec.transformer:
        yield request_of_containers(metadata, spec.transformer, "spec.transformer")
    if spec.explainer and spec.explainer.containers:
        yield request_of_containers(metadata, spec.explainer, "spec.explainer")


def _request(
    service: ObjectMeta,
    component: ComponentSpec,
    sources: tuple[Source, ...],
    spec: StorageSpec | None,
    container: str | None,
) -> StorageRequest:
    account = component.service_account_name or component.service_account or "default"
    return StorageRequest(
        sources=sources,
        spec=spec,
        container=container,
        account=Reference("ServiceAccount", account),
        annotations=(component.annotations or {}, service.annotations),
    )


def _secrets(request: StorageRequest, config: CredentialsConfig, known: Objects) -> Iterator[Reference]:
    by_name = request.spec is not None
    names = (request.spec_secret(config, known),) if by_name else request.account_secrets(config, known)
    return (Reference("Secret", name) for name in names)
