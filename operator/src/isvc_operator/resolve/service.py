"""Makes every decision about a service, from its definition, the runtimes and the configuration. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from isvc_operator.api.base import ObjectMeta
from isvc_operator.api.defaulting import model_of
from isvc_operator.api.inference_service import InferenceService
from isvc_operator.api.names import (
    ANNOTATION_RUNTIME,
    ANNOTATION_STOP,
    CA_BUNDLE_CONFIG_MAP,
    EXPLAINER,
    PREDICTOR,
    TRANSFORMER,
)
from isvc_operator.config import NetworkAccess, OperatorConfig, UpgradePolicy
from isvc_operator.errors import InvalidSpec
from isvc_operator.manifests import Manifest
from isvc_operator.resolve.component import Component, port_in_address, service_port
from isvc_operator.resolve.components import ComponentSpec, RequestedComponent, components_of, specified_components
from isvc_operator.resolve.hosts import Hosts, resolve_hosts
from isvc_operator.resolve.ingress_annotations import IngressAnnotations, ingress_annotations
from isvc_operator.resolve.logger import with_logger
from isvc_operator.resolve.network_policy import network_access
from isvc_operator.resolve.predictor import protocol_of, resolve_own, resolve_with_runtime
from isvc_operator.resolve.repeated_items import check_lists, check_ports
from isvc_operator.resolve.runtime import ChosenRuntime, Runtimes, choose_runtime
from isvc_operator.resolve.scaling import AutoscalerClass, class_of, resolve_scaling
from isvc_operator.resolve.scaling_metrics import ComponentPlace
from isvc_operator.resolve.storage.objects import ObjectReference
from isvc_operator.resolve.storage.plan import StorageContext
from isvc_operator.resolve.tls import ServingTls, read_tls, tls_secret, with_tls
from isvc_operator.resolve.transformer import backend_of, resolve_wrapper
from isvc_operator.resolve.upgrades import inputs_of, own_inputs_of, upgrade_policy


@dataclass(frozen=True)
class Resolved:
    """A service with every decision made; ``render`` turns it into manifests.

    ``chosen`` is None if the predictor consists of the user's own containers. ``inputs`` has, by component, a digest of
    what its pods are rendered from, ``own_inputs`` one of the service's own part of that. ``budgets`` are the
    PodDisruptionBudgets of others in its namespace. ``access``: who may connect to its pods, ``tls``: what they serve
    with.
    """

    service: InferenceService
    chosen: ChosenRuntime | None
    predictor: Component
    transformer: Component | None
    explainer: Component | None
    hosts: Hosts
    ingress_annotations: IngressAnnotations
    upgrade_policy: UpgradePolicy
    inputs: Mapping[str, str]
    own_inputs: Mapping[str, str]
    budgets: Sequence[Manifest] = ()
    access: NetworkAccess = NetworkAccess.NONE
    tls: ServingTls | None = None

    @property
    def components(self) -> tuple[Component, ...]:
        """Every component, the predictor first because the others need it."""
        return tuple(item for item in (self.predictor, self.transformer, self.explainer) if item)

    def is_behind(self, kind: str) -> bool:
        """Whether only other components of the service may connect to this one."""
        return self.access is NetworkAccess.SERVICE and kind == PREDICTOR and self.transformer is not None

    @property
    def refers_to_objects(self) -> bool:
        """Whether it refers to objects that are not watched: a service account, secrets."""
        plans = [item.storage for item in self.components if item.storage]
        return self.tls is not None or any(source.remote for plan in plans for source in plan.copied)

    @property
    def waits_for_keda(self) -> bool:
        """Whether a component is to be scaled by KEDA, which the cluster does not have."""
        return any(item.scaling.lacks_keda for item in self.components)

    @property
    def mounts_ca_bundle(self) -> bool:
        """Whether a pod mounts the copy of the administrator's certificates."""
        mounted = (item.storage.provision.value("CA_BUNDLE_CONFIGMAP_NAME") for item in self.components if item.storage)
        return CA_BUNDLE_CONFIG_MAP in mounted


_NONE: Mapping[str, str] = {}


def resolve(
    service: InferenceService,
    runtimes: Runtimes,
    config: OperatorConfig,
    *,
    storage: StorageContext,
    taken: Mapping[str, str] = _NONE,
    budgets: Sequence[Manifest] = (),
    keda: bool = True,
    tls: bool = True,
) -> Resolved:
    """Resolve a service; raises InvalidSpec if it cannot be served as written.

    ``taken`` are the hosts that belong to other services (``host_claims``), ``budgets`` the PodDisruptionBudgets of
    others in its namespace. ``keda``: the cluster has KEDA. ``tls``: pods serve TLS if that is asked for.
    """
    requested = components_of(service)
    for item in requested:
        check_lists(item.spec, item.field)
    made = _components(service, requested, runtimes, config=config, storage=storage, tls=tls)
    scaled = {
        item.kind: _scaled(made.components[item.kind], item, service.metadata, config, keda=keda) for item in requested
    }
    entry = scaled.get(TRANSFORMER, scaled[PREDICTOR])
    address = _address(service.metadata, entry, config)
    own_annotations = _own_annotations(service, config)
    access = network_access(own_annotations, config.network_policy)
    closed = {PREDICTOR} if access is NetworkAccess.SERVICE and TRANSFORMER in scaled else set()
    hosts = resolve_hosts(
        service.metadata,
        {item.kind: item.name for item in requested if item.kind not in closed},
        address=address,
        config=config.ingress,
        taken=taken,
        only_grpc=service_port(entry, grpc=False) is None,
    )
    serving_tls = _serving_tls(made, address, storage)
    resolved = Resolved(
        service=service,
        chosen=made.chosen,
        predictor=scaled[PREDICTOR],
        transformer=scaled.get(TRANSFORMER),
        explainer=scaled.get(EXPLAINER),
        hosts=hosts,
        ingress_annotations=ingress_annotations(own_annotations if hosts.external else {}, config.ingress),
        upgrade_policy=upgrade_policy(service.metadata, config),
        inputs=inputs_of(service, made.chosen, config, storage),
        own_inputs=own_inputs_of(service),
        budgets=budgets,
        access=access,
        tls=serving_tls,
    )
    for component in resolved.components:
        check_ports(component)
    return resolved


@dataclass(frozen=True)
class _Made:
    """The components of a service without their scaling; ``called``: the host that those beside the predictor call.

    ``secret`` is that of their TLS.
    """

    chosen: ChosenRuntime | None
    components: Mapping[str, Component]
    called: str | None
    secret: ObjectReference | None


def _components(
    service: InferenceService,
    requested: Sequence[RequestedComponent],
    runtimes: Runtimes,
    *,
    config: OperatorConfig,
    storage: StorageContext,
    tls: bool,
) -> _Made:
    chosen, predictor = _predictor(service, runtimes, config, storage)
    secret = tls_secret(service, config) if tls else None

    def completed(component: Component, item: RequestedComponent) -> Component:
        secured = with_tls(component, item, secret, chosen) if secret else component
        return with_logger(secured, item.spec.logger, service.metadata, config.logger)

    predictor = completed(predictor, requested[0])
    protocol = chosen.protocol if chosen else protocol_of(predictor)
    backend = backend_of(predictor, protocol, namespace=service.metadata.namespace or "", config=config)
    wrappers = {
        item.kind: completed(
            resolve_wrapper(service.metadata, item, backend=backend, config=config, storage=storage), item
        )
        for item in requested[1:]
    }
    called = backend.host.partition(":")[0] if wrappers else None
    return _Made(chosen, {PREDICTOR: predictor, **wrappers}, called, secret)


def _predictor(
    service: InferenceService, runtimes: Runtimes, config: OperatorConfig, storage: StorageContext
) -> tuple[ChosenRuntime | None, Component]:
    if service.spec.predictor.worker_spec is not None:
        raise InvalidSpec(
            "spec.predictor.workerSpec requests one model on several nodes, which is not supported: the pods of a "
            "service do not work together; remove it, and choose a runtime without workerSpec"
        )
    model = model_of(service.spec.predictor)
    if model is not None:
        chosen = choose_runtime(model, runtimes, service.metadata.annotations.get(ANNOTATION_RUNTIME))
        check_lists(chosen.runtime.spec, f"{chosen.runtime.kind} {chosen.runtime.metadata.name}: spec")
        return chosen, resolve_with_runtime(service, model, chosen, config=config, storage=storage)
    if service.spec.predictor.containers:
        return None, resolve_own(service, config, storage)
    raise InvalidSpec(
        "spec.predictor names nothing to serve; set spec.predictor.model.modelFormat.name (for example pytorch) and "
        "storageUri, or give it containers"
    )


def _scaled(
    component: Component, requested: RequestedComponent, service: ObjectMeta, config: OperatorConfig, *, keda: bool
) -> Component:
    place = ComponentPlace(requested.field, service.namespace or "", component.name)
    scaler = _autoscaler_class(service, requested.spec)
    scaling = resolve_scaling(requested.spec, scaler, place, config, keda=keda)
    return replace(component, scaling=scaling)


def _address(metadata: ObjectMeta, entry: Component, config: OperatorConfig) -> str:
    """Return the service's URL inside the cluster."""
    scheme = "https" if entry.tls else "http"
    return f"{scheme}://{entry.name}.{metadata.namespace}.svc.cluster.local{port_in_address(entry, config)}"


def _own_annotations(service: InferenceService, config: OperatorConfig) -> dict[str, str]:
    """Return the service's annotations but for those that the administrator excludes."""
    excluded = config.inference_service.service_annotation_disallowed_list
    return {name: value for name, value in service.metadata.annotations.items() if name not in excluded}


def _serving_tls(made: _Made, address: str, storage: StorageContext) -> ServingTls | None:
    if made.secret is None:
        return None
    hosts = [*([made.called] if made.called else []), urlsplit(address).hostname or ""]
    return read_tls(made.secret, storage.objects, hosts, calls=made.called is not None)


def asks_for_keda(service: InferenceService) -> bool:
    """Whether a component is to be scaled by KEDA."""
    found = (_autoscaler_class(service.metadata, component) for _, component in specified_components(service.spec))
    return AutoscalerClass.KEDA in found


def _autoscaler_class(service: ObjectMeta, component: ComponentSpec) -> AutoscalerClass:
    return class_of({**service.annotations, **(component.annotations or {})})


def is_stopped(service: InferenceService) -> bool:
    """Whether the user has paused the service: its children are deleted, its definition stays."""
    return service.metadata.annotations.get(ANNOTATION_STOP, "").lower() == "true"
