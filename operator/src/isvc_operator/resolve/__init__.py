"""Decides what a service shall be: its runtime, its merged pod, its storage and its hosts. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from isvc_operator.api.defaulting import model_of
from isvc_operator.api.inference_service import InferenceService
from isvc_operator.api.names import ANNOTATION_RUNTIME, ANNOTATION_STOP, CA_BUNDLE_CONFIG_MAP
from isvc_operator.config import OperatorConfig
from isvc_operator.errors import InvalidSpec
from isvc_operator.resolve.hosts import Hosts, resolve_hosts
from isvc_operator.resolve.predictor import Predictor, resolve_predictor
from isvc_operator.resolve.runtime import ChosenRuntime, Runtimes, choose_runtime
from isvc_operator.resolve.storage import StorageContext


@dataclass(frozen=True)
class Resolved:
    """A service with every decision taken; ``render`` turns it into manifests."""

    service: InferenceService
    chosen: ChosenRuntime
    predictor: Predictor
    hosts: Hosts

    @property
    def refers_to_objects(self) -> bool:
        """Whether its storage refers to objects that are not watched: a service account, secrets."""
        storage = self.predictor.storage
        return storage is not None and any(source.remote for source in storage.copied)

    @property
    def mounts_ca_bundle(self) -> bool:
        """Whether its pod mounts the copy of the administrator's certificates."""
        storage = self.predictor.storage
        return storage is not None and storage.provision.value("CA_BUNDLE_CONFIGMAP_NAME") == CA_BUNDLE_CONFIG_MAP


_NOTHING = StorageContext()


def resolve(
    service: InferenceService, runtimes: Runtimes, config: OperatorConfig, context: StorageContext = _NOTHING
) -> Resolved:
    """Resolve a service; raises InvalidSpec where it cannot be served as written."""
    model = model_of(service.spec.predictor)
    if model is None or model.model_format is None:
        raise InvalidSpec(
            "spec.predictor names no model to serve; set spec.predictor.model.modelFormat.name (for example pytorch) "
            "and storageUri. Predictors of custom containers are not supported by this version"
        )
    chosen = choose_runtime(model, runtimes, service.metadata.annotations.get(ANNOTATION_RUNTIME))
    predictor = resolve_predictor(service, model, chosen, config, context)
    hosts = resolve_hosts(service.metadata, predictor.name, config.ingress)
    return Resolved(service, chosen, predictor, hosts)


def is_stopped(service: InferenceService) -> bool:
    """Whether the user has paused the service: its objects go, its definition stays."""
    return service.metadata.annotations.get(ANNOTATION_STOP, "").lower() == "true"
